import { expect, test } from 'vitest';
import { afterPush } from './current-definitions.ts';

const ref = (name: string, oid: string) => ({ name: `refs/meta/effects/${name}`, oid });
const edit = (name: string, newOid: string | null) => ({ name, oldOid: null, newOid });

test('definitions after a push are those before it with what it changed, in byte order', () => {
  const before = [ref('a', '1'), ref('c', '1'), ref('d', '1')];
  const applied = [
    edit('refs/heads/main', '9'),
    edit('refs/meta/effects/d', '2'),
    edit('refs/meta/effects/b', '2'),
    edit('refs/meta/effects/a', null),
    edit('refs/meta/effects/B', '2'),
  ];
  expect(afterPush(before, applied)).toEqual([ref('B', '2'), ref('b', '2'), ref('c', '1'), ref('d', '2')]);
  expect(afterPush(before, [])).toEqual(before);
});
