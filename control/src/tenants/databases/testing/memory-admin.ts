import type { DatabaseEngine } from "@svc/proto";
import { verifierOf } from "../../../fleet/databases/verifier.ts";
import { type DatabaseAdmin, ServerUnreachable } from "../admin-sql.ts";

/** A server that keeps what it is told in memory. A login is good when its password has the role's verifier, and the role may log in. */
export class MemoryAdmin implements DatabaseAdmin {
  /** Verifiers by role. */
  readonly roles = new Map<string, string>();
  isAway = false;
  /** Sessions were ended so often. */
  ended = 0;
  isFrozen = false;
  /** What the server says of a copy that follows it. */
  isCopied = true;
  readonly #engine: DatabaseEngine;
  readonly #id: string;
  constructor(engine: DatabaseEngine, id: string) {
    this.#engine = engine;
    this.#id = id;
  }
  #reach() {
    if (this.isAway) throw new ServerUnreachable("it is away");
  }
  async createTenant(_: unknown, { role, verifier }: { role: string; verifier: string }) {
    this.#reach();
    this.roles.set(role, verifier);
    this.isFrozen = false;
  }
  async rotate(_: unknown, { role, verifier }: { role: string; verifier: string }) {
    this.#reach();
    this.roles.set(role, verifier);
    this.ended += 1;
  }
  async freeze() {
    this.#reach();
    this.isFrozen = true;
    this.ended += 1;
    return { position: "0/3000148", isCopied: this.isCopied };
  }
  async bringKeeper() {
    this.#reach();
  }
  async releaseSlots() {
    this.#reach();
    return 0;
  }
  async proveLogin(_: unknown, { role, password }: { role: string; password: string }) {
    this.#reach();
    return !this.isFrozen && this.roles.get(role) === verifierOf(this.#engine, this.#id, password);
  }
}
