/** Why a push is to cause no effects: `git push -o ci.skip`, under the names that other servers gave it. */
export function skipReasonOf(pushOptions: readonly string[]): string | null {
  const asked = pushOptions.find((option) => option === 'ci.skip' || option === 'skip-ci');
  return asked === undefined ? null : `the push asked for it: ${asked}`;
}
