/**
 * A program with tables of its own that uses Sluice as its queue: no git, no second process.
 *
 * An order and the effects it causes commit in one transaction, or not at all. Each customer is a repo to the queue, so
 * one customer's thousand orders do not keep another's single one waiting.
 *
 *     DATABASE_URL=postgres://… node packages/sluice-queue/examples/own-tables.ts
 */
import { Kysely, PostgresDialect, sql, type Generated } from 'kysely';
import pg from 'pg';
import {
  createDatabase,
  enqueueEffect,
  migrate,
  sluice,
  startDispatcher,
  typedPayload,
  type ClaimedEffect,
  type RunContext,
  type RunResult,
} from 'sluice-queue';
import * as v from 'valibot';
import { z } from 'zod';

interface ShopTables {
  shop_order: {
    order_id: Generated<string>; // bigint, as pg gives it
    customer: string;
    total_cents: number;
    invoiced_at: Date | null;
  };
}

/** Any library with Standard Schema will do; a program would choose one. */
const invoice = typedPayload(z.object({ orderId: z.string() }));
const thankYou = typedPayload(
  v.object({ customer: v.string(), totalCents: v.pipe(v.number(), v.integer()) }),
);

/** Stores an order and enqueues what follows from it, in the caller's transaction. */
async function placeOrder(
  shop: Kysely<ShopTables>,
  order: { customer: string; totalCents: number },
): Promise<string> {
  const { customer, totalCents } = order;
  return await shop.transaction().execute(async (trx) => {
    const { order_id } = await trx
      .insertInto('shop_order')
      .values({ customer, total_cents: totalCents, invoiced_at: null })
      .returning('order_id')
      .executeTakeFirstOrThrow();
    await enqueueEffect(sluice(trx), {
      repoId: customer,
      name: 'invoice',
      payload: await invoice.encode({ orderId: order_id }),
      dedupKey: `invoice-${order_id}`,
    });
    await enqueueEffect(sluice(trx), {
      repoId: customer,
      name: 'thank-you',
      payload: await thankYou.encode({ customer, totalCents }),
    });
    if (totalCents < 0) throw new Error(`expected a total of 0 or more, got ${totalCents}`);
    return order_id;
  });
}

type Handler = (effect: ClaimedEffect, context: RunContext) => Promise<RunResult>;

/** What each effect does. An answer is `done`; what it throws is retried; what can never work is `poison`. */
function handlers(shop: Kysely<ShopTables>, say: (line: string) => void): Record<string, Handler> {
  return {
    async invoice({ payload }) {
      const order = await invoice.decode(payload);
      if ('problem' in order) return { status: 'poison', message: order.problem };
      // At least once: the condition makes a second run change nothing.
      await shop
        .updateTable('shop_order')
        .set({ invoiced_at: sql<Date>`now()` })
        .where('order_id', '=', order.value.orderId)
        .where('invoiced_at', 'is', null)
        .execute();
      return { status: 'done', outcome: 'pass' };
    },
    async 'thank-you'({ payload }, { log }) {
      const order = await thankYou.decode(payload);
      if ('problem' in order) return { status: 'poison', message: order.problem };
      const line = `Thank you, ${order.value.customer}, for ${(order.value.totalCents / 100).toFixed(2)}`;
      await log(Buffer.from(`${line}\n`));
      say(line);
      return { status: 'done', outcome: 'pass' };
    },
  };
}

/** The whole program: three customers order, and everything that follows is done. Returns what it said. */
export async function runShop(connectionString: string, say: (line: string) => void): Promise<void> {
  const queue = createDatabase({ connectionString, applicationName: 'shop-queue' });
  const shop = new Kysely<ShopTables>({
    dialect: new PostgresDialect({ pool: new pg.Pool({ connectionString }) }),
  });
  try {
    await migrate(queue);
    await shop.schema
      .createTable('shop_order')
      .ifNotExists()
      .addColumn('order_id', 'bigint', (column) => column.generatedAlwaysAsIdentity().primaryKey())
      .addColumn('customer', 'text', (column) => column.notNull())
      .addColumn('total_cents', 'integer', (column) => column.notNull())
      .addColumn('invoiced_at', 'timestamptz')
      .execute();
    await placeOrder(shop, { customer: 'ada', totalCents: 1250 });
    await placeOrder(shop, { customer: 'grace', totalCents: 300 });
    // Refused after its effects were enqueued: they are gone with it.
    await placeOrder(shop, { customer: 'mallory', totalCents: -1 }).catch((error: Error) =>
      say(error.message),
    );

    const handle = handlers(shop, say);
    const dispatcher = await startDispatcher({
      db: queue,
      connectionString,
      slots: 4,
      repoCap: 2,
      run: async (effect, context) =>
        (await handle[effect.name]?.(effect, context)) ?? {
          status: 'poison',
          message: `no handler for ${effect.name}`,
        },
    });
    await dispatcher.idle();
    await dispatcher.stop();
  } finally {
    await shop.destroy();
    await queue.destroy();
  }
}

if (import.meta.main) {
  const { DATABASE_URL } = process.env;
  if (DATABASE_URL === undefined) throw new Error('DATABASE_URL: expected postgres://user@host/database');
  await runShop(DATABASE_URL, (line) => console.log(line));
}
