/** What a person is told whose push or fetch needed room on the server's disk. */
export const NO_ROOM = "the server's disk has no room for this; nothing was changed. Try again when there is";

const CODES = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

/** Whether this process could not write for lack of room: the disk, the quota or the largest size of a file. */
export function isNoRoom(error: unknown): boolean {
  return error instanceof Error && 'code' in error && CODES.has(String(error.code));
}

/** Whether git said so. */
export function saysNoRoom(text: string): boolean {
  return /No space left on device|Disk quota exceeded|File too large/.test(text);
}
