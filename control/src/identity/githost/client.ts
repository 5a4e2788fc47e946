import { type GithostRepo, limits } from "@svc/proto";
import type { Clock } from "@svc/runtime/clock";
import { z } from "zod";
import type { GithostConfig } from "../../settings/settings.ts";
import { pageSizeOf } from "./settings.ts";

const defaultTimeoutMs = 10_000;
/** All pages of a list together. */
const listTimeoutMs = 25_000;
const bodyBytesMax = 8 * 1024 * 1024;

/** `refused`: the token is not accepted, or grants too little. `away`: no answer that makes sense; worth another try. */
export type Trouble = "refused" | "away";

/** The Git host does not do what is asked. The message is for the log. */
export class GithostError extends Error {
  override readonly name = "GithostError";
  readonly trouble: Trouble;

  constructor(trouble: Trouble, message: string, cause?: unknown) {
    super(message, { cause });
    this.trouble = trouble;
  }
}

export interface GithostTokens {
  accessToken: string;
  refreshToken?: string;
  accessTokenExpiresAt?: Date;
  scopes: string[];
}

export interface GithostUser {
  id: string;
  name: string;
  /** Null when there is none at all. */
  email: string | null;
  emailVerified: boolean;
}

const tokenReply = z.object({
  access_token: z.string().min(1),
  refresh_token: z.string().min(1).nullish(),
  expires_in: z.number().positive().nullish(),
  scope: z.string().nullish(),
});
const userReply = z.object({
  id: z.union([z.int(), z.string().min(1)]),
  login: z.string(),
  name: z.string().nullish(),
  full_name: z.string().nullish(),
});
const emailsReply = z.array(
  z.object({ email: z.string(), verified: z.boolean().default(false), primary: z.boolean().default(false) }),
);
const repoReply = z.object({
  id: z.union([z.int(), z.string()]),
  name: z.string(),
  full_name: z.string(),
  html_url: z.string(),
  default_branch: z.string().nullish(),
  private: z.boolean().default(false),
  updated_at: z.string(),
});

interface Reply {
  status: number;
  body: unknown;
  /** Whether the list goes on behind this page. */
  hasNext: boolean;
}

/**
 * Calls of one Git host, each of which has `timeoutMs`. Redirects are never followed, and nothing of a reply is used as
 * an address.
 */
export function createGithostClient(clock: Clock, config: GithostConfig, timeoutMs = defaultTimeoutMs) {
  async function call(url: string, init: RequestInit, signal?: AbortSignal): Promise<Reply> {
    const timeout = clock.abortAfter(timeoutMs);
    try {
      const response = await fetch(url, {
        ...init,
        redirect: "manual",
        signal: signal === undefined ? timeout : AbortSignal.any([timeout, signal]),
      });
      const body = await readJson(response);
      if (response.status >= 300 && response.status < 400) throw new GithostError("away", "it answers with a redirect");
      if (response.status === 429 || response.headers.get("x-ratelimit-remaining") === "0") {
        if (!response.ok) throw new GithostError("away", "it has had too many requests from us");
      }
      if (response.status >= 500) throw new GithostError("away", `it answers ${response.status}`);
      return { status: response.status, body, hasNext: /rel="?next"?/.test(response.headers.get("link") ?? "") };
    } catch (error) {
      if (error instanceof GithostError) throw error;
      throw new GithostError("away", "it does not answer", error);
    }
  }

  async function get<T>(path: string, token: string, schema: z.ZodType<T>, signal?: AbortSignal) {
    const headers = { authorization: `Bearer ${token}`, accept: "application/json", "user-agent": "svc" };
    const { status, body, hasNext } = await call(`${config.apiUrl}${path}`, { headers }, signal);
    if (status !== 200) throw new GithostError("refused", `${path.split("?")[0]} answers ${status}`);
    return { value: parse(schema, body), hasNext };
  }

  async function askForTokens(grant: Record<string, string>): Promise<GithostTokens> {
    const form = { client_id: config.clientId, client_secret: config.clientSecret, ...grant };
    const headers = { accept: "application/json", "user-agent": "svc" };
    const { status, body } = await call(`${config.url}/login/oauth/access_token`, {
      method: "POST",
      headers,
      body: new URLSearchParams(form),
    });
    // GitHub says 200 to what it refuses.
    const tokens = tokenReply.safeParse(body);
    if (status !== 200 || !tokens.success) throw new GithostError("refused", `no token: it answers ${status}`);
    const { access_token, refresh_token, expires_in, scope } = tokens.data;
    return {
      accessToken: access_token,
      ...(refresh_token && { refreshToken: refresh_token }),
      ...(expires_in && { accessTokenExpiresAt: new Date(clock.now().getTime() + expires_in * 1000) }),
      scopes: (scope ?? "").split(/[\s,]+/).filter((each) => each !== ""),
    };
  }

  return {
    exchangeCode: (code: string, redirectUri: string, codeVerifier: string) =>
      askForTokens({ grant_type: "authorization_code", code, redirect_uri: redirectUri, code_verifier: codeVerifier }),

    refresh: (refreshToken: string) => askForTokens({ grant_type: "refresh_token", refresh_token: refreshToken }),

    async user(token: string): Promise<GithostUser> {
      const { value: user } = await get("/user", token, userReply);
      const { value: emails } = await get("/user/emails", token, emailsReply);
      const verified = emails.filter((each) => each.verified);
      const best =
        verified.find(({ primary }) => primary) ?? verified[0] ?? emails.find(({ primary }) => primary) ?? emails[0];
      return {
        id: String(user.id),
        name: [user.name, user.full_name, user.login].find((name) => name) ?? user.login,
        email: best?.email ?? null,
        emailVerified: best?.verified ?? false,
      };
    },

    /** Every repository that the token shows, up to a bound; the latest change first. */
    async repos(token: string): Promise<{ repos: GithostRepo[]; truncated: boolean }> {
      const signal = clock.abortAfter(listTimeoutMs);
      const found: z.output<typeof repoReply>[] = [];
      const size = pageSizeOf(config);
      let hasNext = true;
      for (let page = 1; hasNext && found.length < limits.githostReposMax; page++) {
        // Both hosts know their own word for the size of a page.
        const query = `per_page=${size}&limit=${size}&page=${page}&sort=updated`;
        const reply = await get(`/user/repos?${query}`, token, z.array(repoReply), signal);
        found.push(...reply.value);
        hasNext = reply.hasNext && reply.value.length > 0;
      }
      const repos = found.map(repoView).toSorted((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
      return {
        repos: repos.slice(0, limits.githostReposMax),
        truncated: hasNext || repos.length > limits.githostReposMax,
      };
    },
  };
}

export type GithostClient = ReturnType<typeof createGithostClient>;

function parse<T>(schema: z.ZodType<T>, body: unknown): T {
  const result = schema.safeParse(body);
  if (!result.success) throw new GithostError("away", "it answers something else than was asked for", result.error);
  return result.data;
}

function repoView(repo: z.output<typeof repoReply>): GithostRepo {
  const updatedAt = new Date(repo.updated_at);
  if (Number.isNaN(updatedAt.getTime())) throw new GithostError("away", "it names a time that is none");
  return {
    id: String(repo.id),
    name: repo.name,
    fullName: repo.full_name,
    url: repo.html_url,
    defaultBranch: repo.default_branch || null,
    private: repo.private,
    updatedAt: updatedAt.toISOString(),
  };
}

/** The body as JSON; null when it is none. Rejects when it is larger than any that makes sense. */
async function readJson(response: Response): Promise<unknown> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of response.body ?? []) {
    bytes += chunk.length;
    if (bytes > bodyBytesMax) throw new GithostError("away", "its answer has no end");
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString("utf8"));
  } catch {
    return null;
  }
}
