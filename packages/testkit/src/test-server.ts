import { inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** A PostgreSQL server on which tests may create databases: set by global-setup.ts. */
    testServerUrl: string;
  }
}

/** The PostgreSQL server of this test run, as `postgres://…`. */
export function testServerUrl(): string {
  return inject('testServerUrl');
}
