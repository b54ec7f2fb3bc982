import { describe, expect, it } from 'vitest';
import { createLogger, type LoggerOptions } from './create-logger.ts';

function recorder(options: Pick<LoggerOptions, 'format' | 'level'>) {
  const lines: string[] = [];
  const log = createLogger({ service: 'test', ...options, write: (line) => lines.push(line) });
  return { log, lines };
}

describe('createLogger', () => {
  it('writes one JSON object a line, with bigints as text and errors in full', () => {
    const { log, lines } = recorder({ format: 'json' });
    log.info({ event: 'push_committed', seq: 12n, ids: [1n, 2n] });
    log.error({
      event: 'push_failed',
      error: Object.assign(new Error('no', { cause: new Error('why') }), { code: 'E1' }),
    });
    const [first, second] = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(first).toMatchObject({
      level: 'info',
      service: 'test',
      event: 'push_committed',
      seq: '12',
      ids: ['1', '2'],
    });
    expect(second).toMatchObject({
      level: 'error',
      error: { message: 'no', code: 'E1', cause: { message: 'why' } },
    });
    expect(lines.every((line) => line.indexOf('\n') === line.length - 1)).toBe(true);
  });

  it('never writes fields named like credentials', () => {
    const { log, lines } = recorder({ format: 'json' });
    log.info({ event: 'started', token: 'hunter2', request: { authorization: 'Basic hunter2' } });
    expect(lines.join('')).not.toContain('hunter2');
  });

  it('writes short lines for people that cannot touch their terminal', () => {
    const { log, lines } = recorder({ format: 'text' });
    log.warn({
      event: 'ref_refused',
      ref: 'refs/heads/\u001b[31mx\u202e',
      reason: 'two words',
      error: new Error('gone'),
    });
    expect(lines).toHaveLength(1);
    expect(lines[0]!.slice(8)).toBe(
      ' warn  ref_refused ref=refs/heads/\\u{1b}[31mx\\u{202e} reason="two words" error=gone\n',
    );
  });

  it('says what is inside of an error that is only a bundle of others', () => {
    const { log, lines } = recorder({ format: 'text' });
    const inner = ['::1', '127.0.0.1'].map((host) => new Error(`connect ECONNREFUSED ${host}:5432`));
    log.warn({ event: 'database_unavailable', error: new AggregateError(inner) });
    expect(lines[0]).toContain('error="connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432"');
  });

  it('keeps quiet below its level', () => {
    const { log, lines } = recorder({ format: 'json', level: 'warn' });
    log.info({ event: 'started' });
    expect(lines).toEqual([]);
  });
});
