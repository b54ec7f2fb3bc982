import { SluiceError } from '@sluice/db';
import type { StandardIssue, StandardSchemaV1 } from './standard-schema.ts';

/** A payload that is JSON of a known shape. */
export interface TypedPayload<Input, Output> {
  /**
   * The text to enqueue.
   *
   * @throws SluiceError `invalid_argument` if the value does not fit the schema or is not JSON.
   */
  encode(value: Input): Promise<string>;
  /** The value of a claimed effect's payload, or what is wrong with it: a reason to return `poison`. */
  decode(payload: string): Promise<{ value: Output } | { problem: string }>;
}

/**
 * Types payloads by any Standard Schema (Zod, Valibot, ArkType, …). The queue itself knows text only. What is stored is
 * the value as given, not as transformed: `decode` validates again, so transforms and defaults apply once, when read.
 *
 * ```ts
 * const welcome = typedPayload(z.object({ to: z.email() }));
 * await enqueueEffect(sluice(trx), { repoId: 'acme', name: 'welcome', payload: await welcome.encode({ to: 'a@b.example' }) });
 * ```
 */
export function typedPayload<Input, Output>(
  schema: StandardSchemaV1<Input, Output>,
): TypedPayload<Input, Output> {
  const validate = async (value: unknown): Promise<{ value: Output } | { problem: string }> => {
    const result = await schema['~standard'].validate(value);
    return result.issues === undefined
      ? { value: result.value }
      : { problem: result.issues.map(describe).join('; ') };
  };
  return {
    async encode(value) {
      const text = toJson(value);
      const result = await validate(JSON.parse(text));
      if ('problem' in result) throw invalid(result.problem);
      return text;
    },
    async decode(payload) {
      let value: unknown;
      try {
        value = JSON.parse(payload);
      } catch (error) {
        return {
          problem: `payload: expected JSON, got ${JSON.stringify(payload.slice(0, 40))} (${(error as Error).message})`,
        };
      }
      return await validate(value);
    },
  };
}

function toJson(value: unknown): string {
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (error) {
    throw invalid((error as Error).message, error);
  }
  if (text === undefined) throw invalid(`expected a value that JSON can hold, got ${typeof value}`);
  return text;
}

function invalid(problem: string, cause?: unknown): SluiceError {
  return new SluiceError('invalid_argument', `payload: ${problem}.`, {
    next: 'Correct the value before enqueueing it.',
    cause,
  });
}

function describe({ path = [], message }: StandardIssue): string {
  const steps = path.map((step) => String(typeof step === 'object' ? step.key : step));
  return ['payload', ...steps].join('.') + `: ${message}`;
}
