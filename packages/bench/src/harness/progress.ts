/** Says on standard error what is going on; standard output carries the result only. */
export function progress(text: string): void {
  process.stderr.write(`${text}\n`);
}
