import {
  deleteBackup,
  requestBackup,
  saveSchedule,
} from "@svc/control/tenants/databases/testing/memory/backup-requests";
import type { Tx } from "@svc/control/tenants/databases/testing/memory/tables";
import { transactOf } from "../control/transact.ts";
import { enter } from "../kernel/ports.ts";
import { at } from "../kernel/random.ts";
import type { Deed } from "./schedule.ts";
import type { World } from "./world.ts";

/** What may be done to backups of databases, and how often per minute at most. */
export const backupDeeds = {
  backUp: 10,
  backUpTwice: 4,
  deleteBackup: 4,
  scheduleBackups: 1,
  nightFalls: 1,
  crashDumper: 1,
  registryAway: 0.7,
} as const;

const askAgainMs = 10_000;

type BackupDeed = keyof typeof backupDeeds;

export const isBackupDeed = (kind: string): kind is BackupDeed => kind in backupDeeds;

/** Does one thing to backups, or to what makes them. */
export function actOnBackups(world: World, kind: BackupDeed, { a, b, ms, x }: Deed): void {
  const { postgres, nodes, kernel } = world;
  const { branches, backups } = postgres.tables;
  /** Of whichever control server there is, the `index`th. */
  const ask = (index: number, work: (tx: Tx) => unknown): void => {
    const replica = at(
      world.replicas.filter(({ process }) => process.alive),
      index,
    );
    if (replica !== undefined) enter(replica.process, () => void transactOf(replica)(work).catch(() => {}));
  };
  /** Of what can be backed up one, or of everything. */
  const find = (): { project_id: string } | undefined => {
    const all = [...branches.rows.values()];
    return at(x < 0.1 ? all : all.filter(({ status }) => status === "ready"), a);
  };
  /** Whoever has no database so far asks again, for a while. */
  const backUp = (index: number, tries = 8): void => {
    const branch = find();
    if (branch !== undefined) ask(index, (tx) => requestBackup(tx, tx.tables.id("u"), branch.project_id, "production"));
    else if (tries > 1) kernel.at(askAgainMs, "a backup is asked for again", () => backUp(index, tries - 1));
  };
  switch (kind) {
    case "backUp":
      backUp(b);
      return;
    case "backUpTwice":
      backUp(b);
      backUp(b + 1);
      return;
    case "deleteBackup":
      ask(b, (tx) => {
        const backup = at([...backups.rows.values()], a);
        if (backup !== undefined) deleteBackup(tx, backup.id);
      });
      return;
    case "scheduleBackups":
      ask(b, (tx) => {
        const branch = at([...branches.rows.values()], a);
        const keep = x < 0.2 ? null : x < 0.6 ? 1 : 2;
        if (branch !== undefined) saveSchedule(tx, branch.project_id, "production", keep);
      });
      return;
    case "nightFalls":
      ask(b, ({ now }) => {
        backups.lastNight = now;
      });
      return;
    case "crashDumper":
      for (const { docker } of nodes) docker.crashProgram(b, "dump");
      return;
    case "registryAway":
      world.artifacts.awayUntilMs = kernel.nowMs + ms;
      return;
  }
}
