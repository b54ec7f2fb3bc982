import { expect, test } from 'vitest';
import { isRetryable, isUnavailable, sqlState } from './postgres-errors.ts';

const fromServer = (code: string): Error =>
  Object.assign(new Error('server says so'), { severity: 'ERROR', code });
const fromNode = (code: string): Error => Object.assign(new Error('socket says so'), { code });

test.each([
  ['serialization failure', fromServer('40001'), true, false],
  ['deadlock', fromServer('40P01'), true, false],
  ['lock timeout', fromServer('55P03'), true, false],
  ['statement timeout', fromServer('57014'), true, false],
  ['too long idle in transaction', fromServer('25P03'), true, false],
  ['transaction too long', fromServer('25P04'), true, false],
  ['administrator shuts down', fromServer('57P01'), true, true],
  ['crash', fromServer('57P02'), true, true],
  ['starting up', fromServer('57P03'), true, true],
  ['session idle for too long', fromServer('57P05'), true, true],
  ['connection failure', fromServer('08006'), true, true],
  ['too many connections', fromServer('53300'), true, true],
  ['refused', fromNode('ECONNREFUSED'), true, true],
  [
    'no socket where the server had one',
    Object.assign(fromNode('ENOENT'), { syscall: 'connect' }),
    true,
    true,
  ],
  ['no file, such as a certificate', Object.assign(fromNode('ENOENT'), { syscall: 'open' }), false, false],
  ['reset', fromNode('ECONNRESET'), true, true],
  ['broken pipe, five letters but no SQLSTATE', fromNode('EPIPE'), true, true],
  ['closed in the middle of a query', new Error('Connection terminated unexpectedly'), true, true],
  ['pool exhausted or server silent', new Error('timeout exceeded when trying to connect'), true, true],
  ['unique violation', fromServer('23505'), false, false],
  ['read-only server', fromServer('25006'), false, false],
  ['an error of ours', new Error('no'), false, false],
  ['not an error', 'no', false, false],
  ['nothing', undefined, false, false],
])('%s', (_, error, retryable, unavailable) => {
  expect({ retryable: isRetryable(error), unavailable: isUnavailable(error) }).toEqual({
    retryable,
    unavailable,
  });
});

test('the SQLSTATE is found behind causes, and only where the server reported one', () => {
  expect(sqlState(fromServer('23505'))).toBe('23505');
  expect(sqlState(new Error('outer', { cause: new Error('middle', { cause: fromServer('40001') }) }))).toBe(
    '40001',
  );
  expect(sqlState(fromNode('EPIPE'))).toBeUndefined();
});

test('a cycle of causes ends', () => {
  const error = new Error('round');
  error.cause = error;
  expect(isRetryable(error)).toBe(false);
});
