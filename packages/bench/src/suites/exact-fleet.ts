import type { RunningTask } from '../harness/bench-process.ts';

interface Member {
  task: RunningTask<void>;
  /** Its present registration; empty while it starts. */
  dispatcherId: string;
  registered: Promise<void>;
  isFrozen: boolean;
  isKilled: boolean;
}

/** Processes of which some are always about to be killed or frozen; whoever is killed is replaced at once. */
export class Fleet {
  readonly #start: (onRegistered: (dispatcherId: string) => void) => RunningTask<void>;
  readonly #members: Member[] = [];
  readonly #failed = Promise.withResolvers<never>();
  #next = 0;
  kills = 0;
  freezes = 0;

  constructor(size: number, start: (onRegistered: (dispatcherId: string) => void) => RunningTask<void>) {
    this.#start = start;
    this.#failed.promise.catch(() => undefined);
    for (let index = 0; index < size; index += 1) this.#members.push(this.#launch());
  }

  /** Rejects when a process ends that was not killed here. */
  get failed(): Promise<never> {
    return this.#failed.promise;
  }

  /** Resolves when all that are running have registered. */
  async whole(): Promise<void> {
    await Promise.race([Promise.all(this.#members.map(({ registered }) => registered)), this.failed]);
  }

  /** Registrations of the processes that are neither killed nor frozen. */
  get alive(): string[] {
    return this.#members.filter(({ isFrozen }) => !isFrozen).map(({ dispatcherId }) => dispatcherId);
  }

  /** Ends a process as a crash would; they take turns. */
  kill(): void {
    do this.#next = (this.#next + 1) % this.#members.length;
    while (this.#members[this.#next]!.isFrozen);
    const index = this.#next;
    const member = this.#members[index]!;
    member.isKilled = true;
    member.task.kill();
    this.#members[index] = this.#launch();
    this.kills += 1;
  }

  /** Lets the process that is registered so stand still until `until` resolves; does nothing if it is gone. */
  async freeze(dispatcherId: string, until: () => Promise<void>): Promise<void> {
    const member = this.#members.find((one) => one.dispatcherId === dispatcherId);
    if (member === undefined) return;
    member.isFrozen = true;
    member.task.freeze();
    await until();
    member.task.thaw();
    member.isFrozen = false;
    this.freezes += 1;
  }

  /** Stops all in good order. */
  async stop(): Promise<void> {
    for (const { task } of this.#members) task.stop();
    await Promise.all(this.#members.map(({ task }) => task.output));
  }

  #launch(): Member {
    const registered = Promise.withResolvers<void>();
    const task = this.#start((dispatcherId) => {
      member.dispatcherId = dispatcherId;
      registered.resolve();
    });
    const member: Member = {
      task,
      dispatcherId: '',
      registered: registered.promise,
      isFrozen: false,
      isKilled: false,
    };
    member.task.output.catch((error: unknown) => {
      if (!member.isKilled) this.#failed.reject(error);
    });
    return member;
  }
}
