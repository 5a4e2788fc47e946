import { type CaddyAdmin, CaddyError } from "@svc/router/caddy";
import type { ModuleLink, OpenModule } from "@svc/router/module-link";
import { parseEntry } from "@svc/router/names";
import type { TreeFiles } from "@svc/router/tree-files";
import type { Clock } from "@svc/runtime/clock";
import type { Kernel, Scope } from "../kernel/kernel.ts";
import { type Answer, createAnswer } from "../kernel/ports.ts";
import type { Random } from "../kernel/random.ts";

/** What somebody has started it with who knows nothing of sites. */
const bootConfig = JSON.stringify("boot");
/** As `router/src/caddy.ts` has them. */
const adminTimeoutMs = { config: 5_000, load: 30_000 };

/** A router's connection to the module. */
interface Link {
  isOpen: boolean;
  generation: number;
  /** The router waits for a line. */
  waiting: Answer<string> | null;
}

/** Upstreams that a target leads to; none unless it is a proxy's. */
export const upstreamsIn = (target: string): string[] => {
  const [kind = "", ...upstreams] = target.split("~");
  return /^p\d+$/.test(kind) ? upstreams : [];
};

/**
 * The Caddy of an edge's machine, and the files in memory in which it looks up what hosts serve: these outlive it, as it outlives
 * the router. With the module it has them in its own memory, as far as it was told.
 */
export class Caddy {
  isUp = true;
  hungUntilMs = 0;
  /** It takes no configuration. */
  refusesUntilMs = 0;
  /** What was in force when somebody was sent there last. */
  private upstreams = new Set<string>();
  private files = new Map<string, Set<string>>();
  /** What the module has in memory; null while there is none. */
  private table: Map<string, string> | null = null;
  private isListening = false;
  private link: Link | null = null;
  private config = bootConfig;
  /** Rises with every start. */
  private life = 0;

  private readonly kernel: Kernel;
  private readonly random: Random;
  private readonly hasModule: boolean;
  /** Called with what nobody is sent to any more. */
  private readonly onLeft: (upstream: string) => void;

  constructor(kernel: Kernel, id: string, onLeft: (upstream: string) => void) {
    this.kernel = kernel;
    this.random = kernel.random.fork(`caddy of ${id}`);
    this.hasModule = this.random.chance(0.6);
    this.onLeft = onLeft;
  }

  get isConfigured(): boolean {
    return this.isUp && this.config !== bootConfig;
  }

  /** Name of the target that visitors of a host come to; null: none. One that is down: what they will come to. */
  targetOf(host: string): string | null {
    const told = this.table?.get(host);
    if (told !== undefined) return told;
    const [first] = [...(this.files.get(host) ?? [])].sort();
    return first === undefined ? null : (parseEntry(first)?.target ?? null);
  }

  hosts(): Set<string> {
    return new Set([...this.files.keys(), ...(this.table?.keys() ?? [])]);
  }

  /** A host whose visitors are sent to `upstream`; null: none. */
  hostOf(upstream: string): string | null {
    for (const host of this.hosts()) if (upstreamsIn(this.targetOf(host) ?? "").includes(upstream)) return host;
    return null;
  }

  private changed(): void {
    const now = new Set([...this.hosts()].flatMap((host) => upstreamsIn(this.targetOf(host) ?? "")));
    for (const upstream of this.upstreams) if (!now.has(upstream)) this.onLeft(upstream);
    this.upstreams = now;
  }

  // ------------------------------------------------------------- what happens to it

  crash(): void {
    this.isUp = false;
    this.life += 1;
    this.hungUntilMs = 0;
    this.table = null;
    this.isListening = false;
    this.hangUp(1);
    this.changed();
  }

  /** Whoever started it starts it again, with the same that it was started with then, or with what it had last. */
  start(): void {
    if (this.isUp) return;
    this.isUp = true;
    if (this.random.chance(0.5)) this.config = bootConfig;
    if (this.isConfigured) this.openTable();
  }

  /** With the machine's memory. */
  powerOff(): void {
    this.crash();
    this.files.clear();
    this.upstreams.clear();
    this.config = bootConfig;
  }

  private hangUp(afterMs: number): void {
    const { link } = this;
    this.link = null;
    if (link === null) return;
    link.isOpen = false;
    link.waiting?.reject(new Error("caddy's module closed the connection"), afterMs, "module hangs up");
  }

  /** Goes on when it does not hang; not at all when it has ended meanwhile. */
  private later(afterMs: number, tag: string, act: () => void): void {
    const { life, kernel } = this;
    const step = (): void => {
      if (this.life !== life || !this.isUp) return;
      if (kernel.nowMs < this.hungUntilMs) kernel.at(this.hungUntilMs - kernel.nowMs, tag, step);
      else act();
    };
    kernel.at(afterMs, tag, step);
  }

  /** It listens first, and reads the files then; see `edge-module/handler.go`. */
  private openTable(): void {
    if (!this.hasModule || this.isListening) return;
    this.isListening = true;
    this.later(this.random.between(0.1, 20), "module reads", () => {
      this.table = new Map([...this.files.keys()].flatMap((host) => pair(host, this.targetOf(host))));
      this.changed();
    });
  }

  // ------------------------------------------------------------- what a router has of it

  /** The files, as one life of a router has them. */
  treeFiles(): TreeFiles {
    const { files } = this;
    const namesOf = (host: string): Set<string> => {
      const names = files.get(host);
      if (names === undefined) throw missing(host);
      return names;
    };
    return {
      found: new Map([...files].map(([host, names]) => [host, [...names]])),
      links: { put() {}, names: () => [] },
      add: (host, name) => {
        files.set(host, (files.get(host) ?? new Set()).add(name));
        this.changed();
      },
      names: (host) => [...namesOf(host)],
      remove: (host, name) => {
        if (!namesOf(host).delete(name)) throw missing(`${host}/${name}`);
        this.changed();
      },
      removeHost: (host) => void files.delete(host),
      markReady: async () => {},
    };
  }

  /** Its administration: what `createCaddyAdmin` is in the real world. */
  admin(clock: Clock, scope: Scope): CaddyAdmin {
    const ask = <T>(what: keyof typeof adminTimeoutMs, takesMs: number, reply: () => T): Promise<T> => {
      const answer = createAnswer<T>(scope);
      const tag = `caddy ${what}`;
      const fail = (why: string, afterMs: number): void =>
        answer.reject(new CaddyError(`caddy does not answer: ${why}`), afterMs, tag);
      if (!this.isUp) fail("connect ECONNREFUSED", 0.2);
      const timer = clock.after(adminTimeoutMs[what], () => fail("timeout", 0));
      this.later(takesMs, tag, () => {
        try {
          answer.resolve(reply(), 0, tag);
        } catch (error) {
          answer.reject(error, 0, tag);
        }
      });
      return answer.promise.finally(() => timer[Symbol.dispose]());
    };
    return {
      config: () => ask("config", this.random.between(0.3, 3), () => JSON.parse(this.config)),
      metrics: async () => "",
      load: (config) =>
        ask("load", this.random.between(5, 150), () => {
          if (this.kernel.nowMs < this.refusesUntilMs)
            throw new CaddyError("caddy refused the configuration (400)", { refused: true });
          this.config = JSON.stringify(config);
          this.openTable();
        }),
    };
  }

  /** Its module: what `moduleAt` is in the real world. */
  module(scope: Scope): OpenModule {
    return async () => {
      const answer = createAnswer<ModuleLink | null>(scope);
      if (!this.isListening) answer.resolve(null, 0.2, "no module");
      else answer.resolve(this.accept(scope), 0.3, "module connected");
      return answer.promise;
    };
  }

  /** The connection that came last counts: the one before it is closed. */
  private accept(scope: Scope): ModuleLink {
    const link: Link = { isOpen: true, generation: 0, waiting: null };
    this.hangUp(1);
    this.link = link;
    const ended = (): Error => new Error("caddy's module closed the connection");
    return {
      isClosed: () => !link.isOpen,
      say: (line) => this.later(this.random.between(0.05, 2), "module told", () => this.take(link, line)),
      answer: () => {
        const answer = createAnswer<string>(scope);
        if (link.isOpen) link.waiting = answer;
        else answer.reject(ended(), 0, "module hangs up");
        return answer.promise;
      },
      close: () => {
        link.isOpen = false;
        if (this.link === link) this.link = null;
        link.waiting?.reject(ended(), 0, "module hangs up");
      },
    };
  }

  private take(link: Link, line: string): void {
    const { table } = this;
    // Before it has read the files it accepts nobody.
    if (table === null) this.later(1, "module told", () => this.take(link, line));
    else if (this.link === link) this.apply(table, link, line);
  }

  private apply(table: Map<string, string>, link: Link, line: string): void {
    const { generation, complete, targets } = JSON.parse(line) as {
      generation: number;
      complete: boolean;
      targets: Record<string, string | null>;
    };
    if (link.generation === 0 ? !complete : generation !== link.generation + 1) {
      link.waiting?.resolve(JSON.stringify({ generation: link.generation, refused: "it does not follow" }), 0.1, "no");
      this.hangUp(1);
      return;
    }
    link.generation = generation;
    if (complete) table.clear();
    for (const [host, target] of Object.entries(targets)) {
      if (target === null) table.delete(host);
      else table.set(host, target);
    }
    this.changed();
    link.waiting?.resolve(JSON.stringify({ generation }), this.random.between(0.05, 1), "module answers");
  }
}

const pair = (host: string, target: string | null): [string, string][] => (target === null ? [] : [[host, target]]);

const missing = (what: string): Error =>
  Object.assign(new Error(`ENOENT: no such file or directory, ${what}`), { code: "ENOENT" });
