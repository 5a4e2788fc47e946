import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { openAuthority } from "@svc/control/fleet/ca/authority";
import { createLog } from "@svc/control/log";
import { createPool, type Db, fromPool } from "@svc/control/stores/db/pool";
import { createEtcd, type Etcd } from "@svc/control/stores/etcd/index";
import { createSecrets } from "@svc/control/stores/secrets";
import { provideEngine } from "@svc/deploy/engine";
import { repositoryRoot } from "@svc/deploy/paths";
import { type Platform, startPlatform } from "@svc/deploy/platform";
import { readSettings } from "@svc/deploy/settings";
import { systemClock, systemRandom } from "@svc/runtime/system";
import type pg from "pg";
import { claimAddresses } from "../../support/addresses.ts";
import { discardCluster, makeClusterDir, platformDir, sweepAbandonedClusters } from "../../support/sweep.ts";
import { createProbe, type Probe } from "./probe.ts";

/** What rows are measured on: a whole platform as `npm start` runs it, without agents of its own. */
export interface Stand extends AsyncDisposable {
  dir: string;
  platform: Platform;
  pool: pg.Pool;
  db: Db;
  etcd: Etcd;
  etcdUrl: string;
  linkUrls: string[];
  authority: Awaited<ReturnType<typeof openAuthority>>;
  probe: Probe;
  /** The process of control that runs now. Throws while there is none. */
  controlPid(): number;
}

const quiet = createLog("silent");

/** Starts it with the disk syncs of an installation. Everything is removed when it is disposed. */
export async function startStand(): Promise<Stand> {
  const settings = readSettings(process.env, repositoryRoot);
  await using stack = new AsyncDisposableStack();
  const dir = await makeClusterDir();
  const log = (line: string) => {
    if (process.env["SVC_TEST_VERBOSE"] === "1") console.error(`  ${line}`);
  };
  // First, so that it outlives the platform: what the platform left in it is removed at the end.
  stack.use(
    await provideEngine({
      clock: systemClock,
      socketPath: settings.dockerSocket,
      logFile: join(dir, "docker.log"),
      log,
    }),
  );
  await sweepAbandonedClusters(settings.dockerSocket);
  stack.defer(() => discardCluster(dir, settings.dockerSocket));
  const { ports, networks } = stack.use(await claimAddresses());
  const probePath = join(dir, "probe.sock");
  const platform = stack.use(
    await startPlatform({
      clock: systemClock,
      ...settings,
      dir: platformDir(dir),
      agents: 0,
      captureImage: "",
      ports,
      networks,
      fresh: false,
      durable: true,
      control: {
        // As much for the young generation as Node gives by default, which is what control of a fleet has.
        NODE_OPTIONS: `--max-semi-space-size=16 --import=${join(import.meta.dirname, "control-probe.ts")}`,
        SVC_BENCH_PROBE: probePath,
      },
      env: process.env,
      log,
    }),
  );
  const { layout } = platform;
  const password = (await readFile(layout.secrets.databasePassword, "utf8")).trim();
  const url = `postgres://svc:${password}@127.0.0.1:${ports.postgres}/svc`;
  const pool = createPool({ url, maxConnections: 4, onError: () => {} });
  stack.defer(() => pool.end());
  const db = fromPool(pool);
  const masterKey = Buffer.from((await readFile(layout.secrets.masterKey, "utf8")).trim(), "base64");
  const authority = await openAuthority(db, createSecrets([masterKey]), { clock: systemClock, random: systemRandom });
  const etcdUrl = `http://127.0.0.1:${ports.etcd}`;
  const etcd = stack.use(createEtcd({ clock: systemClock, random: systemRandom, endpoints: [etcdUrl], log: quiet }));
  const held = stack.move();
  return {
    dir,
    platform,
    pool,
    db,
    etcd,
    etcdUrl,
    linkUrls: [`https://127.0.0.1:${ports.link}`],
    authority,
    probe: createProbe(probePath),
    controlPid() {
      const { pid } = platform.program("control");
      if (pid === null) throw new Error("control does not run");
      return pid;
    },
    [Symbol.asyncDispose]: () => held.disposeAsync(),
  };
}
