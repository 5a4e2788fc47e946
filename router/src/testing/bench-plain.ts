import { mkdir, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { systemClock } from "@svc/runtime/system";
import { freePorts } from "../../../registry/src/testing/ports.ts";
import { createCaddyAdmin } from "../caddy.ts";
import type { CaddyRoute } from "../render/json.ts";
import type { CaddyProcess } from "./caddy-process.ts";
import { startCaddy } from "./caddy-process.ts";
import type { TestEdge } from "./edge.ts";

/** Caddys with one route each, as anybody would set one up: what no configuration can do without. */
export interface PlainCaddy extends AsyncDisposable {
  pid: number;
  /** host:port of each of its servers; they differ in what they do, and in whether they write a log. */
  proxy: string;
  loggedProxy: string;
  file: string;
  loggedFile: string;
  /** Serves `plainHost` with a certificate of its own authority. */
  tlsProxy: string;
}

export const plainHost = "plain.test";

/**
 * @param settings of Go's; none is how Caddy is started by everybody
 * @param logDir in memory, as the edge's own log is meant to be
 */
export async function startPlain(options: {
  dir: string;
  logDir: string;
  settings: Record<string, string>;
  upstream: string;
  files: Record<string, Buffer>;
}): Promise<PlainCaddy> {
  const { dir, logDir, settings, upstream, files } = options;
  const caddy = await startCaddy(join(dir, "caddy"), settings);
  const addresses = (await freePorts(5)).map((port) => `127.0.0.1:${port}`);
  const [proxy = "", loggedProxy = "", file = "", loggedFile = "", tlsProxy = ""] = addresses;
  const root = join(dir, "files");
  for (const [name, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, name)), { recursive: true });
    await writeFile(join(root, name), content);
  }
  const toApp = { handler: "reverse_proxy", upstreams: [{ dial: upstream }] };
  const toFile = { handler: "file_server", root };
  const server = (listen: string, handler: object, more: object = {}) => ({
    listen: [listen],
    automatic_https: { disable: true },
    routes: [{ handle: [handler] }],
    ...more,
  });
  const logged = { logs: {} };
  await createCaddyAdmin(systemClock, caddy.adminSocket).load({
    admin: { listen: `unix/${caddy.adminSocket}` },
    logging: {
      logs: {
        default: { level: "WARN", exclude: ["http.log.access"] },
        access: {
          include: ["http.log.access"],
          writer: { output: "file", filename: join(logDir, "plain.log") },
          encoder: { format: "json" },
        },
      },
    },
    apps: {
      http: {
        servers: {
          proxy: server(proxy, toApp),
          loggedProxy: server(loggedProxy, toApp, logged),
          file: server(file, toFile),
          loggedFile: server(loggedFile, toFile, logged),
          tlsProxy: server(tlsProxy, toApp, { tls_connection_policies: [{}] }),
        },
      },
      tls: {
        certificates: { automate: [plainHost] },
        automation: { policies: [{ issuers: [{ module: "internal" }] }] },
      },
      pki: { certificate_authorities: { local: { install_trust: false } } },
    },
  } as never);
  const { pid } = caddy;
  return {
    ...{ pid, proxy, loggedProxy, file, loggedFile, tlsProxy },
    [Symbol.asyncDispose]: () => caddy[Symbol.asyncDispose](),
  };
}

/** The edge's own configuration over the same table, without the access log. */
export async function startUncounted(dir: string, edge: TestEdge): Promise<{ caddy: CaddyProcess; http: string }> {
  const caddy = await startCaddy(dir);
  const [http = 0, https = 0] = await freePorts(2);
  const text = JSON.stringify(await createCaddyAdmin(systemClock, edge.caddy.adminSocket).config())
    .replaceAll(edge.caddy.adminSocket, caddy.adminSocket)
    .replaceAll(`"${edge.http}"`, `"127.0.0.1:${http}"`)
    .replaceAll(`"${edge.https}"`, `"127.0.0.1:${https}"`);
  const config = JSON.parse(text);
  for (const server of Object.values<{ logs?: object; routes: CaddyRoute[] }>(config.apps.http.servers)) {
    delete server.logs;
    for (const handler of server.routes.flatMap(({ handle }) => handle)) delete handler["visits"];
  }
  delete config.logging.logs.access;
  await createCaddyAdmin(systemClock, caddy.adminSocket).load(config);
  return { caddy, http: `127.0.0.1:${http}` };
}
