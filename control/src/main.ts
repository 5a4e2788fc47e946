#!/usr/bin/env node

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { limits } from "@svc/proto";
import { type Access, BadTokenKey, createTokenSigner } from "@svc/registry";
import { systemClock, systemRandom } from "@svc/runtime/system";
import { ConfigError, readConfig } from "./config.ts";
import { projectPrefix } from "./fleet/artifacts/repositories.ts";
import { openAuthority } from "./fleet/ca/authority.ts";
import { rotationReport } from "./fleet/ca/rotation/report.ts";
import { RotationUnderWay, readRotation, startRotation } from "./fleet/ca/rotation/rotate.ts";
import { createBootstrapToken } from "./fleet/nodes/tokens.ts";
import { RecoveryRefused, recoverCluster } from "./fleet/recovery/command.ts";
import { recoveryRows } from "./fleet/recovery/rows.ts";
import { ensureKeyFiles, type Made } from "./fleet/registry-tokens/key-files.ts";
import { recordAudit } from "./http/audit.ts";
import { createAdmin, InvalidAccount } from "./identity/auth/admin.ts";
import { createClaimLink } from "./identity/auth/claim.ts";
import { createLog } from "./log.ts";
import { spareMemory } from "./memory.ts";
import type { Config } from "./settings/settings.ts";
import { migrate } from "./stores/db/migrate.ts";
import { MigrationMismatch, UnknownSchema } from "./stores/db/migrations.ts";
import { createDb } from "./stores/db/pool.ts";
import { seedPlans } from "./stores/db/seed.ts";
import type { Etcd } from "./stores/etcd/index.ts";
import { createSecrets } from "./stores/secrets.ts";
import { checkKeys, KeyRotationRefused, rotateKeys } from "./tenants/admin/key-rotation/command.ts";

const usage = `usage:
  svc-control serve                                            run the control server (the default)
  svc-control migrate                                          bring the database to the newest schema
  svc-control create-admin --email E --password-file F         an administrator with a verified address
  svc-control claim-link [--ttl SECONDS]                       print a one-time link that makes the first administrator
  svc-control bootstrap-token --role node|edge [--ttl SECONDS] [--count N]
                                                               print a one-time token that admits a daemon, or N of
                                                               them, one a line
  svc-control registry-key --key-file F --cert-file F          make what signs the tokens of the cluster's registry, unless
                                                               it is there
  svc-control registry-token --repository NAME [--push] [--mount-from NAME]
                                                               print a token, good for a quarter of an hour, with which an
                                                               operator reads or writes a repository of the cluster's
                                                               registry that is no project's, and reads another one
  svc-control rotate-ca start|status                           replace the authority that machines are known by, while
                                                               control serves; status tells which have moved to the new one
  svc-control rotate-key [--check]                             seal everything with the first of the master keys, while
                                                               control serves; --check only counts who seals what
  svc-control after-restore [--epoch N]                        bring etcd and Postgres together after one of them was
                                                               restored from a backup; no control server may run`;

const keyFilesMade: Readonly<Record<Made, string>> = {
  both: "the key and its certificate are made",
  certificate: "the key was there already; its certificate is made",
  nothing: "both files are there already, and stay as they are",
};

/** Most of the program is what serves: the other commands are done before that would be loaded. */
const whatServes = () => import("./start.ts");

/** Several times what an orderly end takes where stores answer. */
const endWithinMs = 30_000;

/**
 * Ends the process when what it began does not end in time: a store whose machine hangs, or is cut off, answers nothing and
 * closes nothing, and calls of it are waited for. Dying anywhere does no harm; a replica that neither serves nor ends does.
 */
function endInTime(): void {
  systemClock
    .after(endWithinMs, () => {
      console.error(`svc-control: not at its end ${endWithinMs / 1_000} s after it was asked to end; it ends now`);
      process.exit(1);
    })
    .unref();
}

/** Of one `bootstrap-token`; a fleet that grows by more asks again. */
const tokensMax = 100;

/** A client for a command, whose output is what it prints. */
async function openEtcd(config: Config): Promise<Etcd> {
  const [{ createEtcd }, { etcdOptions }] = await Promise.all([import("./stores/etcd/index.ts"), whatServes()]);
  return createEtcd({ clock: systemClock, random: systemRandom, ...etcdOptions(config), log: createLog("silent") });
}

/** A mistake of the person at the command line: one clear line, no stack. */
class UsageError extends Error {
  override readonly name = "UsageError";
}

/** Needed before there is anything to set. */
const firstCommands: Record<string, (args: string[]) => Promise<void>> = {
  async "registry-key"(args) {
    const { values } = parseArgs({
      args,
      options: { "key-file": { type: "string" }, "cert-file": { type: "string" } },
    });
    const { "key-file": keyFile, "cert-file": certificateFile } = values;
    if (keyFile === undefined || certificateFile === undefined)
      throw new UsageError("registry-key needs --key-file and --cert-file");
    console.log(keyFilesMade[await ensureKeyFiles({ keyFile, certificateFile }, systemClock.now())]);
  },
};

const commands: Record<string, (config: Config, args: string[]) => Promise<void>> = {
  async serve(config) {
    spareMemory();
    const { start } = await whatServes();
    const stop = new Promise<void>((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
    });
    void stop.then(endInTime);
    await using _server = await start(config);
    await stop;
  },

  async migrate(config) {
    const ran = await migrate(systemClock, config.databaseUrl);
    console.log(ran.length === 0 ? "the schema is up to date" : ran.map((name) => `ran ${name}`).join("\n"));
  },

  async "create-admin"(config, args) {
    const { values } = parseArgs({ args, options: { email: { type: "string" }, "password-file": { type: "string" } } });
    const { email, "password-file": file } = values;
    if (email === undefined || file === undefined)
      throw new UsageError("create-admin needs --email and --password-file");
    const { createAuth } = await import("./identity/auth/auth.ts");
    await migrate(systemClock, config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      await seedPlans(db);
      await using auth = createAuth({ clock: systemClock, config, db, log: createLog("warn"), mailer: null });
      await createAdmin({ db, auth }, { email, password: readFileSync(file, "utf8").trim() });
      console.log(`administrator ${email} is ready`);
    } finally {
      await db.destroy();
    }
  },

  async "claim-link"(config, args) {
    const { values } = parseArgs({ args, options: { ttl: { type: "string" } } });
    const { claimLinkSecondsDefault, claimLinkSecondsMax } = limits;
    const ttlSeconds = Number(values.ttl ?? claimLinkSecondsDefault);
    if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1 || ttlSeconds > claimLinkSecondsMax)
      throw new UsageError(`--ttl is a number of seconds, at most ${claimLinkSecondsMax}`);
    await migrate(systemClock, config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      const code = await createClaimLink(db, ttlSeconds);
      if (code === null)
        throw new UsageError(
          "there already is an administrator; make another one with create-admin, or with their help",
        );
      console.log(`${config.apiUrl}/claim?code=${code}`);
    } finally {
      await db.destroy();
    }
  },

  async "bootstrap-token"(config, args) {
    const { values } = parseArgs({
      args,
      options: {
        role: { type: "string" },
        ttl: { type: "string", default: "3600" },
        count: { type: "string", default: "1" },
      },
    });
    const { role } = values;
    if (role !== "node" && role !== "edge") throw new UsageError("bootstrap-token needs --role node or --role edge");
    const ttlSeconds = Number(values.ttl);
    if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1) throw new UsageError("--ttl is a number of seconds");
    const count = Number(values.count);
    if (!Number.isInteger(count) || count < 1 || count > tokensMax)
      throw new UsageError(`--count is a number of tokens, at most ${tokensMax}`);
    await migrate(systemClock, config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      const authority = await openAuthority(db, createSecrets(config.masterKeys), {
        clock: systemClock,
        random: systemRandom,
      });
      for (let made = 0; made < count; made += 1) {
        const { token } = await createBootstrapToken(db, {
          role,
          ttlSeconds,
          createdBy: null,
          clusterId: authority.clusterId,
          caSha256: authority.caSha256,
          now: systemClock.now(),
        });
        console.log(token);
      }
    } finally {
      await db.destroy();
    }
  },

  async "registry-token"(config, args) {
    const { values } = parseArgs({
      args,
      options: { repository: { type: "string" }, push: { type: "boolean" }, "mount-from": { type: "string" } },
    });
    const { repository, push = false, "mount-from": from } = values;
    if (repository === undefined) throw new UsageError("registry-token needs --repository");
    const names = from === undefined ? [repository] : [repository, from];
    if (names.some((name) => name.startsWith(projectPrefix)))
      throw new UsageError(`what is below ${projectPrefix} is projects' own`);
    const access = names.map((name): Access => {
      const isWritten = push && name === repository;
      return { type: "repository", name, actions: isWritten ? ["pull", "push"] : ["pull"] };
    });
    const now = systemClock.now();
    console.log(createTokenSigner(systemRandom, config.registry.tokenKey, now)("operator", access, now).token);
  },

  async "after-restore"(config, args) {
    const { values } = parseArgs({ args, options: { epoch: { type: "string" } } });
    const epoch = Number(values.epoch ?? 1);
    if (!Number.isSafeInteger(epoch) || epoch < 1) throw new UsageError("--epoch is a whole number from 1");
    await migrate(systemClock, config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      await using etcd = await openEtcd(config);
      await recoverCluster({
        rows: recoveryRows(db),
        etcd,
        epoch,
        clock: systemClock,
        print: (line) => console.log(line),
      });
    } finally {
      await db.destroy();
    }
  },

  async "rotate-ca"(config, args) {
    const [verb, ...rest] = args;
    if ((verb !== "start" && verb !== "status") || rest.length > 0)
      throw new UsageError("rotate-ca needs start or status");
    await migrate(systemClock, config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      if (verb === "start") {
        const secrets = createSecrets(config.masterKeys);
        await db.transaction().execute(async (tx) => {
          const started = await startRotation(tx, { secrets, now: systemClock.now() });
          if (started === null) throw new UsageError("there is no authority yet: it is made when control first serves");
          await recordAudit(tx, { caller: null, address: "", action: "ca.rotate", target: started.caSha256 });
        });
      }
      const state = await readRotation(db, systemClock.now());
      const lines =
        state === null ? ["There is no authority yet: it is made when control first serves."] : rotationReport(state);
      for (const line of lines) console.log(line);
    } finally {
      await db.destroy();
    }
  },

  async "rotate-key"(config, args) {
    const { values } = parseArgs({ args, options: { check: { type: "boolean", default: false } } });
    await migrate(systemClock, config.databaseUrl);
    const secrets = createSecrets(config.masterKeys);
    const print = (line: string) => console.log(line);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      if (values.check) {
        if (!(await checkKeys({ db, secrets, print }))) process.exitCode = 1;
        return;
      }
      await using etcd = await openEtcd(config);
      if (!(await rotateKeys({ db, secrets, etcd, print }))) process.exitCode = 1;
    } finally {
      await db.destroy();
    }
  },
};

const [name = "serve", ...args] = process.argv.slice(2);
const command = commands[name];
const firstCommand = firstCommands[name];
if (command === undefined && firstCommand === undefined) {
  console.error(usage);
  process.exitCode = name === "help" || name === "--help" ? 0 : 2;
} else {
  try {
    await (firstCommand?.(args) ?? command?.(readConfig(systemClock.now(), process.env), args));
  } catch (error) {
    const isForPeople =
      error instanceof ConfigError ||
      error instanceof BadTokenKey ||
      error instanceof UsageError ||
      error instanceof InvalidAccount ||
      error instanceof MigrationMismatch ||
      error instanceof RecoveryRefused ||
      error instanceof KeyRotationRefused ||
      error instanceof RotationUnderWay ||
      error instanceof UnknownSchema;
    console.error(isForPeople ? `svc-control: ${error.message}` : error);
    process.exitCode = isForPeople ? 2 : 1;
  }
}
