import { githostReposReply } from "@svc/proto";
import { ApiError } from "../../http/errors.ts";
import { refuseLimited } from "../../http/limited.ts";
import { endpoint } from "../endpoint.ts";
import { withGithostToken } from "./account.ts";
import { createGithostClient, GithostError } from "./client.ts";

const awayRetrySeconds = 30;

const repos = endpoint({
  method: "GET",
  path: "/githost/repos",
  access: "full",
  summary: "Repositories of the connected Git host account, the latest change first.",
  errors: ["GITHOST_NOT_CONNECTED", "GITHOST_TOKEN_INVALID", "UNAVAILABLE"],
  reply: githostReposReply,
  async handle({ db, auth, config, clock, log }, { caller }) {
    refuseLimited(caller, "list the repositories of the account");
    const { githost } = config;
    if (githost === undefined) {
      throw new ApiError("GITHOST_NOT_CONNECTED", { message: "This installation has no Git host to connect." });
    }
    const client = createGithostClient(clock, githost);
    try {
      const found = await withGithostToken({ db, auth, config: githost, client, clock }, caller.userId, client.repos);
      if (found === null) throw new ApiError("GITHOST_NOT_CONNECTED");
      return found;
    } catch (error) {
      if (!(error instanceof GithostError)) throw error;
      if (error.trouble === "refused") throw new ApiError("GITHOST_TOKEN_INVALID", { cause: error });
      log.warn({ err: error }, "the Git host's repositories could not be listed");
      throw new ApiError("UNAVAILABLE", {
        message: "The Git host does not answer. Try again in a moment.",
        retryAfterSeconds: awayRetrySeconds,
        cause: error,
      });
    }
  },
});

export const githostEndpoints = [repos];
