/** `prefix0000` and on: as many different repos as asked for. */
export function repoNames(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, index) => `${prefix}${String(index).padStart(5, '0')}`);
}
