import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import { createAdmin, InvalidAccount } from "./auth/admin.ts";
import { createAuth } from "./auth/auth.ts";
import { openAuthority } from "./ca/authority.ts";
import { type Config, ConfigError, readConfig } from "./config.ts";
import { migrate } from "./db/migrate.ts";
import { createDb } from "./db/pool.ts";
import { seedPlans } from "./db/seed.ts";
import { createLog } from "./log.ts";
import { createBootstrapToken } from "./nodes/tokens.ts";
import { createSecrets } from "./secrets.ts";
import { start } from "./start.ts";

const usage = `usage:
  control serve                                            run the control server (the default)
  control migrate                                          bring the database to the newest schema
  control create-admin --email E --password-file F         an administrator with a verified address
  control bootstrap-token --role node|edge [--ttl SECONDS] print a one-time token that admits a daemon`;

/** A mistake of the person at the command line: one clear line, no stack. */
class UsageError extends Error {
  override readonly name = "UsageError";
}

const commands: Record<string, (config: Config, args: string[]) => Promise<void>> = {
  async serve(config) {
    const stop = new Promise<void>((resolve) => {
      for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => resolve());
    });
    await using _server = await start(config);
    await stop;
  },

  async migrate(config) {
    const ran = await migrate(config.databaseUrl);
    console.log(ran.length === 0 ? "the schema is up to date" : ran.map((name) => `ran ${name}`).join("\n"));
  },

  async "create-admin"(config, args) {
    const { values } = parseArgs({ args, options: { email: { type: "string" }, "password-file": { type: "string" } } });
    const { email, "password-file": file } = values;
    if (email === undefined || file === undefined)
      throw new UsageError("create-admin needs --email and --password-file");
    await migrate(config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      await seedPlans(db);
      await using auth = createAuth({ config, log: createLog("warn"), mailer: null });
      await createAdmin(auth, { email, password: readFileSync(file, "utf8").trim() });
      console.log(`administrator ${email} is ready`);
    } finally {
      await db.destroy();
    }
  },

  async "bootstrap-token"(config, args) {
    const { values } = parseArgs({
      args,
      options: { role: { type: "string" }, ttl: { type: "string", default: "3600" } },
    });
    const { role } = values;
    if (role !== "node" && role !== "edge") throw new UsageError("bootstrap-token needs --role node or --role edge");
    const ttlSeconds = Number(values.ttl);
    if (!Number.isInteger(ttlSeconds) || ttlSeconds < 1) throw new UsageError("--ttl is a number of seconds");
    await migrate(config.databaseUrl);
    const db = createDb({ url: config.databaseUrl, maxConnections: 2 });
    try {
      const authority = await openAuthority(db, createSecrets(config.masterKeys), new Date());
      const { token } = await createBootstrapToken(db, {
        role,
        ttlSeconds,
        createdBy: null,
        clusterId: authority.clusterId,
        caSha256: authority.caSha256,
        now: new Date(),
      });
      console.log(token);
    } finally {
      await db.destroy();
    }
  },
};

const [name = "serve", ...args] = process.argv.slice(2);
const command = commands[name];
if (command === undefined) {
  console.error(usage);
  process.exitCode = name === "help" || name === "--help" ? 0 : 2;
} else {
  try {
    await command(readConfig(process.env), args);
  } catch (error) {
    const isForPeople = error instanceof ConfigError || error instanceof UsageError || error instanceof InvalidAccount;
    console.error(isForPeople ? `control: ${error.message}` : error);
    process.exitCode = isForPeople ? 2 : 1;
  }
}
