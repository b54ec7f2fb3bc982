import { createHash } from 'node:crypto';
import { DEFINITION_LIMITS, type EffectDefinition } from './effect-definition.ts';

/**
 * The group that an effect of this definition joins when `ref` triggers it: the definition's text with `{ref}` filled
 * in. Longer than 200 bytes, its SHA-256 stands for it. Undefined: the definition names no group.
 */
export function concurrencyGroup(definition: EffectDefinition, ref: string): string | undefined {
  if (definition.concurrency === null) return undefined;
  const group = definition.concurrency.group.replaceAll('{ref}', () => ref);
  if (Buffer.byteLength(group) <= DEFINITION_LIMITS.groupBytes) return group;
  return `sha256:${createHash('sha256').update(group).digest('hex')}`;
}
