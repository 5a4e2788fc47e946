import { existsSync } from "node:fs";
import { chmod, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { run } from "@svc/runtime/command";
import { writeDurably } from "@svc/runtime/durable-file";
import { environmentOf } from "../environment.ts";
import { nodeBinary, repositoryRoot } from "../paths.ts";
import { isFree, type Ports } from "../ports.ts";
import type { ProgramSpec } from "../program.ts";
import { startLocalDns } from "./dns.ts";

const loopback = "127.0.0.1";
const certificateDays = 3_650;

/** A CA that nobody trusts, and a DNS server that it and control ask, for the whole way of a certificate on one machine. */
export interface LocalAcme extends AsyncDisposable {
  spec: ProgramSpec;
  /** Settings of control. */
  control: Record<string, string>;
  /** Texts of names, one a line, which a person may add to. */
  recordsFile: string;
}

/** Starts the DNS server; the CA is for the caller to start. @param dir made when it is not there */
export async function provideAcme(options: {
  dir: string;
  ports: Ports;
  contentDomain: string;
  env: NodeJS.ProcessEnv;
}): Promise<LocalAcme> {
  const { dir, ports, contentDomain } = options;
  const recordsFile = join(dir, "records.txt");
  const [certificate, privateKey] = [join(dir, "ca-server.pem"), join(dir, "ca-server-key.pem")];
  await mkdir(dir, { recursive: true, mode: 0o700 });
  if (!existsSync(certificate)) await makeServerCertificate(certificate, privateKey);
  const config = join(dir, "pebble.json");
  const listen = {
    listenAddress: `${loopback}:${ports.acme}`,
    managementListenAddress: `${loopback}:${ports.acmeRoots}`,
    // Where the edge of this machine is, and not where those of others are.
    httpPort: ports.http,
    tlsPort: ports.https,
  };
  const pebble = { ...listen, certificate, privateKey, ocspResponderURL: "", externalAccountBindingRequired: false };
  await writeDurably(config, JSON.stringify({ pebble }));
  const dns = await startLocalDns({ port: ports.dns, address: loopback, file: recordsFile });
  const dnsServer = `${loopback}:${ports.dns}`;
  return {
    recordsFile,
    spec: {
      name: "pebble",
      argv: ["pebble", "-config", config, "-dnsserver", dnsServer, "-strict=false"],
      env: environmentOf(options.env, { PEBBLE_VA_NOSLEEP: "1" }),
      ready: async () => !(await isFree(ports.acme)),
      readyMs: 20_000,
      stopSignal: "SIGTERM",
      graceMs: 5_000,
    },
    control: {
      SVC_CONTENT_URL: `https://${contentDomain}:${ports.https}`,
      SVC_ACME_DIRECTORY: `https://localhost:${ports.acme}/dir`,
      SVC_ACME_ROOT_FILE: certificate,
      SVC_ACME_DNS_HOOK: await writeHook(join(dir, "dns-hook"), recordsFile),
      SVC_DNS_SERVERS: dnsServer,
      SVC_EDGE_ADDRESSES: loopback,
    },
    [Symbol.asyncDispose]: () => dns[Symbol.asyncDispose](),
  };
}

/** Of the CA's own server; that of the sites' certificates it makes anew at each start. */
async function makeServerCertificate(certificate: string, privateKey: string): Promise<void> {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", privateKey];
  const about = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", String(certificateDays)];
  await run(["openssl", "req", "-x509", ...key, ...about, "-out", certificate]);
}

/** The program that control has write records: it takes no settings, so that they are written into it. */
async function writeHook(path: string, recordsFile: string): Promise<string> {
  const module = pathToFileURL(join(repositoryRoot, "deploy", "src", "acme", "records.mjs")).href;
  const call = `changeRecords(${JSON.stringify(recordsFile)}, process.argv.slice(2))`;
  const lines = [`#!${nodeBinary()}`, `import(${JSON.stringify(module)}).then(({ changeRecords }) => ${call});`, ""];
  await writeDurably(path, lines.join("\n"));
  await chmod(path, 0o700);
  return path;
}
