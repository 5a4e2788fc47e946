import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { get } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { spawnProgram } from "@svc/runtime/programs";
import { freePorts } from "../../../../../registry/src/testing/ports.ts";
import { startDns, type TestDns } from "../../../stores/dns/testing.ts";
import { until } from "../../../stores/etcd/testing.ts";
import { createAuthority, createServerCertificate } from "../../ca/certificates.ts";

/** A CA in a process of its own, with a DNS server that it asks. */
export interface TestCa extends AsyncDisposable {
  directoryUrl: string;
  /** Of the authority that the CA's own server shows: PEM. */
  rootPem: string;
  dns: TestDns;
  /** The port at which it looks for answers of http-01. */
  httpPort: number;
  /** The authority of what it issues: PEM. */
  issuingRoot(): Promise<string>;
  stop(): Promise<void>;
  /** With another account store and authority, as after a loss. */
  start(): Promise<void>;
}

export interface TestCaOptions {
  httpPort?: number;
  /** Percent of requests that are refused for their nonce. */
  badNonces?: number;
}

/** Starts pebble. It keeps everything in memory. */
export async function startCa({ httpPort, badNonces = 5 }: TestCaOptions = {}): Promise<TestCa> {
  await using opened = new AsyncDisposableStack();
  const dir = await mkdtemp(join(tmpdir(), "svc-ca-"));
  opened.defer(() => rm(dir, { recursive: true, force: true }));
  const dns = opened.use(await startDns());
  const [port = 0, managementPort = 0, tlsPort = 0, freeHttp = 0] = await freePorts(4);
  const root = await createAuthority("test", { ...validity(), serial: Buffer.alloc(16, 1) });
  const server = await createServerCertificate(root, {
    ...validity(),
    serial: Buffer.alloc(16, 2),
    hosts: ["localhost"],
  });
  const certificate = join(dir, "cert.pem");
  const privateKey = join(dir, "key.pem");
  const config = join(dir, "pebble.json");
  await writeFile(certificate, server.certificate);
  await writeFile(privateKey, server.privateKey, { mode: 0o600 });
  const settings = {
    listenAddress: `127.0.0.1:${port}`,
    managementListenAddress: `127.0.0.1:${managementPort}`,
    certificate,
    privateKey,
    httpPort: httpPort ?? freeHttp,
    tlsPort,
    ocspResponderURL: "",
    externalAccountBindingRequired: false,
  };
  await writeFile(config, JSON.stringify({ pebble: settings }));

  let stopChild: () => Promise<void> = async () => {};
  const start = async (): Promise<void> => {
    const child = spawnProgram(["pebble", "-config", config, "-dnsserver", dns.server, "-strict=false"], {
      stdio: "ignore",
      env: {
        ...process.env,
        PEBBLE_VA_NOSLEEP: "1",
        PEBBLE_WFE_NONCEREJECT: String(badNonces),
        PEBBLE_AUTHZREUSE: "0",
      },
    });
    stopChild = async () => {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const gone = once(child, "exit");
      child.kill("SIGKILL");
      await gone;
    };
    await until("the CA serves", () => read(`https://localhost:${managementPort}/roots/0`, root.certificate));
  };
  opened.defer(() => stopChild());
  await start();
  const running = opened.move();
  return {
    directoryUrl: `https://localhost:${port}/dir`,
    rootPem: root.certificate,
    dns,
    httpPort: settings.httpPort,
    async issuingRoot() {
      const pem = await read(`https://localhost:${managementPort}/roots/0`, root.certificate);
      if (pem === null) throw new Error("the CA does not show its root");
      return pem;
    },
    stop: () => stopChild(),
    start,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

/** Around whatever the present time is. */
const validity = () => {
  const nowMs = performance.timeOrigin + performance.now();
  return { notBefore: new Date(nowMs - 3_600_000), notAfter: new Date(nowMs + 86_400_000) };
};

/** Null while there is no answer. */
const read = (url: string, ca: string): Promise<string | null> =>
  new Promise((resolve) => {
    const asked = get(url, { ca, agent: false, timeout: 2_000 }, (answer) => {
      text(answer).then(
        (body) => resolve(answer.statusCode === 200 ? body : null),
        () => resolve(null),
      );
    });
    asked.on("timeout", () => asked.destroy());
    asked.on("error", () => resolve(null));
  });
