import type { Clock } from "@svc/runtime/clock";
import { genericOAuth } from "better-auth/plugins/generic-oauth";
import type { Log } from "../../log.ts";
import type { GithostConfig } from "../../settings/settings.ts";
import { createGithostClient } from "./client.ts";
import { accountPrefix, githostName, grantsOf } from "./settings.ts";

/** What the Git host is called in accounts, whichever one it is. */
export const githostProvider = "githost";

/** The Git host as a way to sign in, and as an account that a user can connect. */
export function githostPlugin(clock: Clock, config: GithostConfig, log: Log) {
  const client = createGithostClient(clock, config);
  return genericOAuth({
    config: [
      {
        providerId: githostProvider,
        name: githostName(config),
        clientId: config.clientId,
        clientSecret: config.clientSecret,
        authorizationUrl: `${config.url}/login/oauth/authorize`,
        scopes: [...grantsOf(config).signIn],
        pkce: true,
        accountSubject: ({ profile }) => `${accountPrefix(config)}${profile.id}`,
        getToken: ({ code, redirectURI, codeVerifier }) => client.exchangeCode(code, redirectURI, codeVerifier ?? ""),
        async getUserInfo({ accessToken }) {
          try {
            const user = await client.user(accessToken ?? "");
            return { ...user, email: user.email ?? undefined };
          } catch (error) {
            log.warn({ err: error }, "the Git host does not say who somebody is");
            return null;
          }
        },
      },
    ],
  });
}
