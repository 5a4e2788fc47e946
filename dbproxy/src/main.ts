import { ConfigError, readConfig } from "./config.ts";
import { createLog } from "./log.ts";
import { start } from "./start.ts";

/** The first SIGTERM lets connections that are there go on for a while; SIGINT, or another signal, ends them. */
async function serve(): Promise<void> {
  const ended = new AbortController();
  const asked = new Promise<void>((resolve) => {
    process.on("SIGINT", () => {
      ended.abort();
      resolve();
    });
    process.on("SIGTERM", () => {
      resolve();
      process.on("SIGTERM", () => ended.abort());
    });
  });
  const config = readConfig(process.env);
  const log = createLog(config.logLevel);
  await using proxy = await start(config, { log });
  log.info("ready");
  await asked;
  await proxy.drain(ended.signal);
}

try {
  await serve();
} catch (cause) {
  if (!(cause instanceof ConfigError)) throw cause;
  console.error(cause.message);
  process.exitCode = 1;
}
