import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { serveTunnels, type TunnelEnd } from "./tunnel.ts";

/** One request as the server saw it. */
export interface Seen {
  method: string;
  path: string;
  headers: IncomingMessage["headers"];
  body: Buffer;
}

/** What to answer: an object is JSON with status 200. */
export interface Answer {
  status?: number;
  headers?: Record<string, string>;
  body: object | string | Buffer;
}

/** No answer: the request was read, and then the connection is cut. */
export const hangUp: Answer = { status: 0, body: "" };

/** Answers by "METHOD /path", query string left off. A list is answered one by one, its last entry for ever. */
export type Routes = Readonly<Record<string, Answer | readonly Answer[] | ((seen: Seen) => Answer)>>;

export type TestApi = AsyncDisposable & { url: string; seen: Seen[] };

/** A stand-in for a platform that the command line talks to: real HTTP on a free port, with fixed answers. */
export async function startApi(routes: Routes, tunnel?: TunnelEnd): Promise<TestApi> {
  const seen: Seen[] = [];
  const turns = new Map<string, number>();
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { method = "GET", url = "/", headers } = request;
    const one: Seen = { method, path: url, headers, body: Buffer.concat(chunks) };
    seen.push(one);
    const { status = 200, headers: extra = {}, body } = answerOf(routes, turns, one);
    if (status === hangUp.status) {
      request.socket.destroy();
      return;
    }
    const text = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    response.writeHead(status, { "content-type": "application/json", ...extra }).end(text);
  });
  if (tunnel !== undefined)
    serveTunnels(server, tunnel, (path, key) => {
      seen.push({ method: "UPGRADE", path, headers: { "x-api-key": key }, body: Buffer.alloc(0) });
    });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    seen,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

function answerOf(routes: Routes, turns: Map<string, number>, seen: Seen): Answer {
  const key = `${seen.method} ${seen.path.split("?")[0]}`;
  const route = routes[key];
  if (route === undefined) return refusal(404, "NOT_FOUND", `nothing at ${key}`);
  if (typeof route === "function") return route(seen);
  if (!("body" in route)) {
    const turn = turns.get(key) ?? 0;
    turns.set(key, turn + 1);
    const answer = route[Math.min(turn, route.length - 1)];
    if (answer === undefined) throw new Error(`no answer for ${key}`);
    return answer;
  }
  return route;
}

/** An error as the API sends it. */
export const refusal = (status: number, code: string, message = code): Answer => ({
  status,
  body: { ok: false, error: { code, message } },
});

export const ok = (payload: object, status = 200): Answer => ({ status, body: { ok: true, ...payload } });

const at = "2030-01-01T00:00:00.000Z";

export const projectId = "11111111-1111-4111-8111-111111111111";
export const deploymentId = "22222222-2222-4222-8222-222222222222";

export const aUser = { id: "u1", email: "ada@example.test", name: "Ada", plan: "standard" };

export const aRelease = {
  configured: false,
  status: "not_configured",
  startedAt: null,
  finishedAt: null,
  exitCode: null,
  error: null,
  skippedReason: null,
};

export const aProject = (fields: object = {}) => ({
  id: projectId,
  name: "Shop",
  slug: "shop",
  type: "static",
  url: "http://shop.svc.localhost:8080",
  framework: null,
  repoUrl: null,
  repoId: null,
  productionBranch: "main",
  deployMode: "auto",
  status: "running",
  suspendedAt: null,
  suspendReason: null,
  passwordProtected: false,
  createdAt: at,
  updatedAt: at,
  ...fields,
});

export const aDeployment = (fields: object = {}) => ({
  id: deploymentId,
  projectId,
  status: "running",
  channel: "production",
  url: "http://shop.svc.localhost:8080",
  imageRef: null,
  staticPath: null,
  error: null,
  trigger: "cli",
  gitSha: null,
  gitRef: null,
  gitRepository: null,
  gitPrNumber: null,
  release: aRelease,
  manifest: {},
  createdAt: at,
  startedAt: at,
  finishedAt: at,
  ...fields,
});

/** The answer to a deployment that was accepted. */
export const anAccepted = (fields: object = {}) => ({
  deploymentId,
  channel: "production",
  url: "http://shop.svc.localhost:8080",
  project: { id: projectId, slug: "shop", type: "static" },
  source: { rootDirectory: ".", manifestPath: "svc.yml", watchPaths: ["**"] },
  release: aRelease,
  ...fields,
});
