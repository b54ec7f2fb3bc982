/** One effect that was claimed, in the order of claims; those of one claim share its `claim`. */
export interface Service {
  repo: string;
  claim: string;
}

/**
 * The greatest distance of any repo from its entitlement, as a share of that: 0.03 is 3 %. Looked at after the claim
 * with which `atLeast` effects were reached, and after every later one, so that no end is a lucky one. Never within a
 * claim, whose effects start at once.
 */
export function greatestDeviation(
  services: readonly Service[],
  weights: ReadonlyMap<string, number>,
  atLeast: number,
): number {
  if (services.length < atLeast)
    throw new Error(`expected at least ${atLeast} effects served, got ${services.length}`);
  const sum = [...weights.values()].reduce((total, weight) => total + weight, 0);
  const served = new Map([...weights.keys()].map((repo) => [repo, 0]));
  let greatest = 0;
  for (const [index, { repo, claim }] of services.entries()) {
    served.set(repo, served.get(repo)! + 1);
    const count = index + 1;
    if (count < atLeast || services[count]?.claim === claim) continue;
    for (const [name, weight] of weights)
      greatest = Math.max(greatest, Math.abs((served.get(name)! * sum) / (count * weight) - 1));
  }
  return greatest;
}
