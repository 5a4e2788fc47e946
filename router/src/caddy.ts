import { request as httpRequest } from "node:http";
import { canonicalJson } from "@svc/runtime/canonical-json";
import type { Clock } from "@svc/runtime/clock";
import { run } from "@svc/runtime/command";
import { readAnswer } from "@svc/runtime/http-answer";
import { programAt } from "@svc/runtime/programs";
import type { Wake } from "@svc/runtime/wake";
import type { Log } from "./log.ts";
import { caddyProblem } from "./render/caddy-version.ts";
import type { JsonObject } from "./render/json.ts";
import { type InFront, inFrontProblem } from "./render/proxied.ts";

/** Caddy does not run, or does not want what it was given. */
export class CaddyError extends Error {
  override name = "CaddyError";
  /** It runs, and answered no: the same again will not help. */
  readonly refused: boolean;

  constructor(message: string, options: { refused?: boolean; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    this.refused = options.refused ?? false;
  }
}

/** Caddy's administration. Every method throws CaddyError. */
export interface CaddyAdmin {
  /** The configuration in force; null when there is none. */
  config(): Promise<unknown>;
  /** What it measures of itself, in the text format of Prometheus. */
  metrics(): Promise<string>;
  /** Replaces it as a whole, or leaves the old one in force and throws. Connections that are open may be cut. */
  load(config: JsonObject): Promise<void>;
}

const answerBytesMax = 8 * 1024 ** 2;
const readTimeoutMs = 5000;
/** Whoever reads metrics does not wait for long. */
const metricsTimeoutMs = 2000;
const loadTimeoutMs = 30_000;

export function createCaddyAdmin(clock: Clock, socketPath: string): CaddyAdmin {
  return {
    async config() {
      const { status, body } = await call(clock, socketPath, {
        method: "GET",
        path: "/config/",
        timeoutMs: readTimeoutMs,
      });
      if (status !== 200) throw new CaddyError(`caddy answered ${status} for its configuration`, { refused: true });
      return JSON.parse(body);
    },
    async metrics() {
      const asked = { method: "GET", path: "/metrics", timeoutMs: metricsTimeoutMs };
      const { status, body } = await call(clock, socketPath, asked);
      if (status !== 200) throw new CaddyError(`caddy answered ${status} for its metrics`, { refused: true });
      return body;
    },
    async load(config) {
      const sent = { method: "POST", path: "/load", body: JSON.stringify(config), timeoutMs: loadTimeoutMs };
      const { status, body } = await call(clock, socketPath, sent);
      if (status === 200) return;
      throw new CaddyError(`caddy refused the configuration (${status}): ${body.slice(0, 500)}`, { refused: true });
    },
  };
}

function call(
  clock: Clock,
  socketPath: string,
  { method, path, body, timeoutMs }: { method: string; path: string; body?: string; timeoutMs: number },
): Promise<{ status: number; body: string }> {
  return new Promise((resolve, reject) => {
    const fail = (cause: Error) => reject(new CaddyError(`caddy does not answer: ${cause.message}`, { cause }));
    const sent = httpRequest({
      socketPath,
      method,
      path,
      agent: false,
      signal: clock.abortAfter(timeoutMs),
      // Caddy expects no name on a Unix socket and refuses any. As a list, because Node would fill an empty one in.
      headers: [
        ...["Host", ""],
        ...(body === undefined
          ? []
          : ["Content-Type", "application/json", "Content-Length", String(Buffer.byteLength(body))]),
      ],
    });
    sent.once("error", fail);
    sent.once("response", (answer) => {
      readAnswer(answer, answerBytesMax).then((text) => resolve({ status: answer.statusCode ?? 0, body: text }), fail);
    });
    sent.end(body);
  });
}

/** What `<binary> version` says, such as `2.6.2` or `v2.11.4 h1:…`. */
async function caddyVersion(binary: string): Promise<string> {
  try {
    const { stdout } = await run([programAt("caddy", binary), "version"], { timeoutMs: 10_000 });
    return stdout.trim();
  } catch (cause) {
    throw new CaddyError(`${binary} does not tell its version`, { cause });
  }
}

/** The same, of a Caddy that does for this edge. @throws CaddyError that says why it does not. */
export async function usableCaddy(binary: string, inFront: InFront): Promise<string> {
  const version = await caddyVersion(binary);
  const problem = caddyProblem(version) ?? inFrontProblem(inFront, version);
  if (problem !== null) throw new CaddyError(problem, { refused: true });
  return version;
}

/** Whether a Caddy that does has a module; `name` as `caddy list-modules` has it. */
export async function hasModule(binary: string, name: string): Promise<boolean> {
  const { stdout } = await run([programAt("caddy", binary), "list-modules"], { timeoutMs: 10_000 });
  return stdout.split("\n").some((line) => line.split(" ")[0] === name);
}

const lookEveryMs = 2000;
const tryAgainMs = 250;
const refusedAgainMs = 10_000;

/**
 * Sees to it that Caddy has the configuration, until `signal` aborts. It is loaded only into a Caddy that
 * has another or none. After Caddy was away, `render` is asked anew: it may be another version. So it is with another
 * revision.
 *
 * @param isClosing whether it is to be the configuration that asks visitors to end their connections
 * @param onConfigured called whenever Caddy has the configuration after it had not
 */
export async function keepConfigured(options: {
  admin: CaddyAdmin;
  isClosing(): boolean;
  render(closing: boolean): Promise<JsonObject>;
  /** Another text whenever another configuration is to be rendered. */
  revision(): string;
  onConfigured(closing: boolean): void;
  /** Called whenever it does not answer, or refuses. */
  onUnreachable?(): void;
  /** Signalled when `isClosing` changed. */
  wake: Pick<Wake, "wait">;
  signal: AbortSignal;
  log: Log;
}): Promise<void> {
  const { admin, isClosing, render, revision, onConfigured, wake, signal, log } = options;
  let inForce: string | null = null;
  let closingInForce = false;
  let revisionInForce = "";
  let told = "";
  while (!signal.aborted) {
    let pauseMs = lookEveryMs;
    try {
      const present = canonicalJson(await admin.config());
      const closing = isClosing();
      const wantedRevision = revision();
      if (present !== inForce || closing !== closingInForce || wantedRevision !== revisionInForce) {
        const config = await render(closing);
        const wanted = canonicalJson(config);
        if (present !== wanted) {
          await admin.load(config);
          log.info("caddy configured");
        }
        inForce = wanted;
        revisionInForce = wantedRevision;
        closingInForce = closing;
        told = "";
        onConfigured(closing);
      }
    } catch (err) {
      inForce = null;
      options.onUnreachable?.();
      const refused = err instanceof CaddyError && err.refused;
      pauseMs = refused ? refusedAgainMs : tryAgainMs;
      const said = err instanceof Error ? err.message : String(err);
      if (said !== told) log.warn({ err }, "caddy not configured");
      told = said;
    }
    await wake.wait(pauseMs, signal);
  }
}
