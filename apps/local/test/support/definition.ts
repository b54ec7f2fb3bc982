/** The text of an `effect.yaml` that runs on every branch. JSON is YAML, whatever is in the command. */
export function onBranches(run: string, more: Record<string, unknown> = {}): string {
  return JSON.stringify({ on: ['refs/heads/**'], run, ...more });
}

/** What a push said it queued, in its order. */
export function queuedBy(stderr: string): { id: bigint; name: string; ref: string }[] {
  return [...stderr.matchAll(/effect (\d+) (\S+) for (\S+): queued/g)].map(([, id, name, ref]) => ({
    id: BigInt(id!),
    name: name!,
    ref: ref!,
  }));
}
