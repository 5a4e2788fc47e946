import { AgentChecks } from "./checks/agents.ts";
import { BackupChecks } from "./checks/backups.ts";
import { ChangeChecks } from "./checks/changes.ts";
import { CopyChecks } from "./checks/copies.ts";
import { DatabaseChecks } from "./checks/databases.ts";
import { EdgeChecks } from "./checks/edges.ts";
import { EtcdChecks } from "./checks/etcd.ts";
import { Violation } from "./checks/invariants.ts";
import { JobChecks } from "./checks/jobs.ts";
import { RowChecks } from "./checks/rows.ts";
import { Seen } from "./checks/seen.ts";
import type { World } from "./world.ts";

/** Looks at everything that happens, as nobody inside the world could. */
export class Checks {
  found: Violation | null = null;
  readonly seen: Seen;
  readonly etcd: EtcdChecks;
  readonly rows: RowChecks;
  readonly agents: AgentChecks;
  readonly edges: EdgeChecks;
  readonly jobs: JobChecks;
  readonly databases: DatabaseChecks;
  readonly backups: BackupChecks;
  readonly changes: ChangeChecks;
  readonly copies: CopyChecks;

  constructor(world: World) {
    this.seen = new Seen(world, this);
    this.etcd = new EtcdChecks(this.seen);
    this.rows = new RowChecks(this.seen);
    this.agents = new AgentChecks(this.seen);
    this.edges = new EdgeChecks(this.seen);
    this.jobs = new JobChecks(this.seen);
    this.databases = new DatabaseChecks(this.seen);
    this.backups = new BackupChecks(this.seen);
    this.changes = new ChangeChecks(this.seen);
    this.copies = new CopyChecks(this.seen);
  }

  /** Called after every transaction. */
  readonly onTransaction = (): void => {
    this.rows.onCommit();
    this.jobs.onRows();
    this.databases.onRows();
    this.backups.onRows();
    this.copies.onRows();
  };

  fail(invariant: number, text: string): void {
    if (this.found === null) this.found = new Violation(invariant, text);
  }

  onUncaught(processId: string, error: unknown): void {
    this.fail(32, `${processId}: ${error instanceof Error ? error.stack : error}`);
  }
}
