/** Ends the transaction without a trace; the reason goes to the client for every ref, or each gets its own. */
export class PushRefused extends Error {
  override readonly name = 'PushRefused';
  readonly reasons: ReadonlyMap<string, string> | string;

  constructor(reasons: ReadonlyMap<string, string> | string) {
    super('the push is refused');
    this.reasons = reasons;
  }
}
