/** Something the person at the terminal can correct: printed as one line, without a stack. */
export class LocalError extends Error {
  override readonly name = 'LocalError';
}
