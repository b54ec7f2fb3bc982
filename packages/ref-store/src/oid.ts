/** An object id in lower-case hex: 40 characters in a sha1 repository, 64 in a sha256 one. */
export type Oid = string;

/** The hash of a repository's objects. */
export type ObjectFormat = 'sha1' | 'sha256';

const HEX_LENGTH = { sha1: 40, sha256: 64 } as const;

/** Whether the text is an id that names an object: right length, lower-case hex, not all zeros. */
export function isOid(format: ObjectFormat, text: string): boolean {
  return text.length === HEX_LENGTH[format] && /^[0-9a-f]+$/.test(text) && !/^0+$/.test(text);
}

/** What git writes where there is no object: as many zeros as an id has characters. */
export function zeroOid(format: ObjectFormat): string {
  return '0'.repeat(HEX_LENGTH[format]);
}

/** The format an id belongs to, by its length. */
export function formatOf(oid: Oid): ObjectFormat {
  return oid.length === HEX_LENGTH.sha256 ? 'sha256' : 'sha1';
}
