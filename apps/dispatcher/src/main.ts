import { withCompileCache } from '@sluice/service-kit/compile-cache';

await withCompileCache(() => import('./dispatch.ts'));
