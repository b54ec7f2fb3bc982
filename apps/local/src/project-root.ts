import { resolve } from 'node:path';

/** The checkout that this program belongs to. */
export const PROJECT_ROOT = resolve(import.meta.dirname, '../../..');
