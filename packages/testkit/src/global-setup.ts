import type { TestProject } from 'vitest/node';
import { sweepDatabases } from './template-database.ts';

/** Chooses the PostgreSQL server of this test run. */
export default async function setup(project: TestProject): Promise<void> {
  const url = process.env['TEST_DATABASE_URL']!;
  await sweepDatabases(url);
  project.provide('testServerUrl', url);
}
