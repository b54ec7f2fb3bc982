export { concurrencyGroup } from './concurrency-group.ts';
export { dedupKey } from './dedup-key.ts';
export { DEFINITION_FILE, DEFINITION_LIMITS, type EffectDefinition } from './effect-definition.ts';
export { DEFINITION_PREFIX, isEffectName, META_PREFIX, RESULT_PREFIX, resultRef } from './effect-name.ts';
export { describeProblems } from './describe-problems.ts';
export { editMember, memberKeyLines, type MemberChange } from './edit-member.ts';
export { editPolicy, type RuleChange } from './edit-policy.ts';
export { environment } from './environment.ts';
export {
  composeGoverned,
  governingFile,
  isGoverning,
  parseGoverning,
  type Governed,
  type Governing,
} from './governing.ts';
export { hasAdmin, hasSigningAdmin, ownerOfKey, ownersOfKeys, type KeyOwner } from './key-owner.ts';
export { matchEffect, type Match, type TriggerEdit } from './match-effect.ts';
export { parseDefinition, type ParsedDefinition } from './parse-definition.ts';
export { MEMBER_FILE, MEMBER_PREFIX, parseMember, ROLES, type Member, type Role } from './parse-member.ts';
export { parsePolicy } from './parse-policy.ts';
export { planEffects, planInTurns, type CurrentDefinition, type EffectPlan } from './plan-effects.ts';
export {
  keyOfSignature,
  parsePushCertificate,
  type PushCertificate,
  type SignedCommand,
} from './push-certificate.ts';
export {
  admits,
  ATTESTATION_LEVELS,
  CONFIG_REF,
  createPolicy,
  POLICY_FILE,
  policySteps,
  ruleInForce,
  rulesInForce,
  strictestLevel,
  type AttestationLevel,
  type Decided,
  type Policy,
  type RuleInForce,
} from './push-policy.ts';
export type { Problem } from './read-yaml.ts';
export { isServedName, SERVED_NAME } from './served-name.ts';
export { isWholePublicKey, normalizePublicKey, PUBLIC_KEY_TYPES } from './ssh-public-key.ts';
export {
  buildWorkOrder,
  decodeWorkOrder,
  encodeWorkOrder,
  HOPS_MAX,
  type DecodedWorkOrder,
  type WorkOrder,
  type WorkOrderFacts,
} from './work-order.ts';
export { MATCHING_STEPS_MAX, matchingSteps } from './matching-steps.ts';
