import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { GithostConfig } from "../../settings/settings.ts";
import { defaultApiUrl, type GithostKind } from "./settings.ts";

export interface GithostPerson {
  id: number;
  login: string;
  /** As people read it; none unless it is said. */
  name?: string;
  emails: { email: string; verified: boolean; primary: boolean }[];
  repos?: { name: string; private?: boolean; updatedAt?: string }[];
}

interface Grant {
  person: GithostPerson;
  scopes: string[];
}

interface Code extends Grant {
  challenge: string;
  redirectUri: string;
}

/** A small Git host that speaks what GitHub or Gitea do, as strictly as they do. */
export interface TestGithost extends AsyncDisposable {
  config: GithostConfig;
  /** The person lets the application in that `authorizeUrl` names; returns where the browser is sent back to. */
  letIn(authorizeUrl: string, person: GithostPerson): string;
  /** What was asked, oldest first: "GET /user". */
  asked: string[];
  /** Tokens that work now. */
  tokens: Map<string, Grant>;
  refreshTokens: Map<string, Grant>;
  /** Seconds that tokens work; 0: until revoked. */
  tokenSeconds: number;
  /** Replaces the answer of the next calls whose path it names. */
  broken: { path: string; status: number; headers?: Record<string, string>; body?: string; hang?: boolean } | null;
  /** Done once: after the next refresh token was exchanged, before anybody is told. */
  beforeRefreshed: (() => Promise<void>) | null;
}

const secretOf = () => randomBytes(20).toString("hex");

export async function startGithost(kind: GithostKind, { callback }: { callback: () => string }): Promise<TestGithost> {
  const clientId = secretOf();
  const clientSecret = secretOf();
  const codes = new Map<string, Code>();
  const hanging = new Set<ServerResponse>();
  const host: Omit<TestGithost, "config" | "letIn" | keyof AsyncDisposable> = {
    ...{ asked: [], tokens: new Map(), refreshTokens: new Map(), tokenSeconds: 0, broken: null, beforeRefreshed: null },
  };

  function issue(grant: Grant) {
    const accessToken = secretOf();
    host.tokens.set(accessToken, grant);
    if (host.tokenSeconds === 0)
      return { access_token: accessToken, token_type: "bearer", scope: grant.scopes.join(",") };
    const refreshToken = secretOf();
    host.refreshTokens.set(refreshToken, grant);
    return {
      access_token: accessToken,
      token_type: "bearer",
      expires_in: host.tokenSeconds,
      refresh_token: refreshToken,
    };
  }

  /** GitHub says 200 to what it refuses, Gitea 400. */
  const refuse = (error: string) => ({ status: kind === "github" ? 200 : 400, body: { error } });

  function token(form: URLSearchParams) {
    const secret = Buffer.from(form.get("client_secret") ?? "");
    const isClient = secret.length === clientSecret.length && timingSafeEqual(secret, Buffer.from(clientSecret));
    if (form.get("client_id") !== clientId || !isClient) return refuse("incorrect_client_credentials");
    if (form.get("grant_type") === "refresh_token") {
      const refreshToken = form.get("refresh_token") ?? "";
      const grant = host.refreshTokens.get(refreshToken);
      if (!grant) return refuse("bad_refresh_token");
      host.refreshTokens.delete(refreshToken);
      return { status: 200, body: issue(grant) };
    }
    const code = codes.get(form.get("code") ?? "");
    codes.delete(form.get("code") ?? "");
    const challenge = createHash("sha256")
      .update(form.get("code_verifier") ?? "")
      .digest("base64url");
    if (!code || code.challenge !== challenge || code.redirectUri !== form.get("redirect_uri"))
      return refuse("bad_verification_code");
    return { status: 200, body: issue(code) };
  }

  function repos(grant: Grant, query: URLSearchParams, response: ServerResponse) {
    const needed = kind === "github" ? "repo" : "read:repository";
    const all = (grant.person.repos ?? []).filter((repo) => !repo.private || grant.scopes.includes(needed));
    if (kind === "gitea" && !grant.scopes.includes(needed))
      return { status: 403, body: { message: "token lacks scope" } };
    const asked = Number(query.get(kind === "github" ? "per_page" : "limit"));
    const size = Math.min(asked, kind === "github" ? 100 : 50);
    const page = Number(query.get("page"));
    if (page * size < all.length)
      response.setHeader("link", `<http://elsewhere.test/user/repos?page=${page + 1}>; rel="next"`);
    return {
      status: 200,
      body: all.slice((page - 1) * size, page * size).map((repo, index) => ({
        id: (page - 1) * size + index + 1,
        name: repo.name,
        full_name: `${grant.person.login}/${repo.name}`,
        html_url: `https://git.svc.test/${grant.person.login}/${repo.name}`,
        default_branch: "main",
        private: repo.private ?? false,
        updated_at: repo.updatedAt ?? "2026-01-02T03:04:05Z",
        owner: { login: grant.person.login },
      })),
    };
  }

  function api(path: string, query: URLSearchParams, request: IncomingMessage, response: ServerResponse) {
    const grant = host.tokens.get(/^Bearer (\w+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "");
    if (!grant) return { status: 401, body: { message: "Bad credentials" } };
    const { id, login, emails, name = "" } = grant.person;
    if (path === "/user") return { status: 200, body: { id, login, [kind === "github" ? "name" : "full_name"]: name } };
    if (path === "/user/emails") return { status: 200, body: emails };
    if (path === "/user/repos") return repos(grant, query, response);
    return { status: 404, body: { message: "Not Found" } };
  }

  const server = createServer(async (request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? "/", "http://githost.test");
    const path = pathname.replace(/^\/api\/v[13]/, "");
    host.asked.push(`${request.method} ${path}`);
    if (host.broken?.path === path) {
      if (host.broken.hang) return void hanging.add(response);
      response.writeHead(host.broken.status, host.broken.headers).end(host.broken.body ?? "");
      return;
    }
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const form = new URLSearchParams(Buffer.concat(chunks).toString());
    const answer = path === "/login/oauth/access_token" ? token(form) : api(path, searchParams, request, response);
    const { beforeRefreshed } = host;
    if (beforeRefreshed !== null && form.get("grant_type") === "refresh_token") {
      host.beforeRefreshed = null;
      await beforeRefreshed();
    }
    response.writeHead(answer.status, { "content-type": "application/json" }).end(JSON.stringify(answer.body));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const address = server.address();
  const url = `http://127.0.0.1:${typeof address === "object" ? address?.port : 0}`;
  const authorizePage = `${url}/login/oauth/authorize`;

  return Object.assign(host, {
    config: { kind, url, apiUrl: defaultApiUrl(kind, url), clientId, clientSecret },
    letIn(authorizeUrl: string, person: GithostPerson): string {
      const { origin, pathname, searchParams: asked } = new URL(authorizeUrl);
      const wrong = [
        `${origin}${pathname}` !== authorizePage && "address",
        asked.get("client_id") !== clientId && "client_id",
        asked.get("response_type") !== "code" && "response_type",
        asked.get("redirect_uri") !== callback() && "redirect_uri",
        (asked.get("state") ?? "").length < 16 && "state",
        asked.get("code_challenge_method") !== "S256" && "code_challenge_method",
        !/^[\w-]{43}$/.test(asked.get("code_challenge") ?? "") && "code_challenge",
      ].filter(Boolean);
      if (wrong.length > 0) throw new Error(`the Git host refuses ${wrong.join(", ")} of ${authorizeUrl}`);
      const code = secretOf();
      codes.set(code, {
        person,
        scopes: (asked.get("scope") ?? "").split(" "),
        challenge: asked.get("code_challenge") ?? "",
        redirectUri: callback(),
      });
      const { pathname: back } = new URL(callback());
      return `${back}?${new URLSearchParams({ code, state: asked.get("state") ?? "" })}`;
    },
    async [Symbol.asyncDispose]() {
      for (const response of hanging) response.destroy();
      await new Promise((resolve) => server.close(resolve).closeAllConnections());
    },
  });
}
