export { oldestWaitingMs } from '@sluice/queue-core/dispatcher';
export type { Clock } from './clock.ts';
export type { DispatchEvent, EffectEnd } from './dispatch-event.ts';
export type { RunContext, RunResult } from './run-result.ts';
export {
  startDispatcher,
  type DispatcherOptions,
  type DispatcherStats,
  type RunningDispatcher,
} from './start-dispatcher.ts';
export type { StandardIssue, StandardResult, StandardSchemaV1 } from './standard-schema.ts';
export { typedPayload, type TypedPayload } from './typed-payload.ts';
