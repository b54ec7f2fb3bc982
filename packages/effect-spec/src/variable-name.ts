import { DEFINITION_LIMITS } from './effect-definition.ts';

/** Whether a definition may set this variable: a portable name that is not one of Sluice's own. */
export function isVariableName(name: string): boolean {
  return (
    name.length <= DEFINITION_LIMITS.envNameBytes &&
    /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) &&
    !/^SLUICE_/i.test(name)
  );
}
