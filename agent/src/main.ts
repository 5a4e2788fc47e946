import { ConfigError, readConfig } from "./config.ts";
import { createLog } from "./log.ts";
import { IdentityReplacedError } from "./rejoin.ts";
import { start } from "./start.ts";

async function main(): Promise<void> {
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  const stopped = Promise.withResolvers<"stopped">();
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stopped.resolve("stopped"));
  let outcome: Error | "stopped" | null;
  do {
    const agent = await start(config, { log });
    void agent.ready.then((nodeId) => log.info({ nodeId }, "ready"));
    outcome = await Promise.race([agent.ended, stopped.promise]);
    if (outcome === "stopped") log.info("stopping; containers go on");
    else log.error({ err: outcome }, "the agent ended");
    await agent[Symbol.asyncDispose]();
  } while (outcome instanceof IdentityReplacedError);
  process.exitCode = outcome === "stopped" ? 0 : 1;
}

main().catch((cause: unknown) => {
  const reason = cause instanceof Error ? cause.message : String(cause);
  process.stderr.write(`svc-agent: ${reason}\n`);
  if (!(cause instanceof ConfigError) && cause instanceof Error && process.env["SVC_LOG_LEVEL"] === "debug") {
    process.stderr.write(`${cause.stack ?? ""}\n`);
  }
  process.exitCode = 1;
});
