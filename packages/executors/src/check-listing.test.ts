import { expect, it } from 'vitest';
import { checkListing } from './check-listing.ts';
import { UnsafeTreeError } from './check-tree-entries.ts';

const LIMITS = { entriesMax: 100_000, bytesMax: 1_000_000 };

function listingOf(names: readonly string[]): string {
  return names.map((name) => `100644 blob ${'a'.repeat(40)}       1\t${name}\0`).join('');
}

it('lets others have their turns while it checks many names', async () => {
  const names = Array.from({ length: 25_000 }, (_, index) => `f${index}`);
  let turns = 0;
  let isChecked = false;
  const count = (): void => {
    turns += 1;
    if (!isChecked) setImmediate(count);
  };
  setImmediate(count);
  await checkListing(listingOf(names), LIMITS);
  isChecked = true;
  expect(turns).toBeGreaterThanOrEqual(5);
});

it('looks at every name, the last one and one without its NUL as well', async () => {
  await checkListing('', LIMITS);
  await expect(checkListing(listingOf(['a', 'b', '..']), LIMITS)).rejects.toThrow(UnsafeTreeError);
  await expect(checkListing(listingOf(['a', '..']).slice(0, -1), LIMITS)).rejects.toThrow(UnsafeTreeError);
});
