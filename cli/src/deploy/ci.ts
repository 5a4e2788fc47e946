import { type DeploymentMetadata, deploymentMetadata } from "@svc/proto";
import type { Env } from "../environment.ts";

/** Where each fact is found, per CI system. The first variable that is set counts. */
const sources = {
  "github-actions": {
    gitSha: ["GITHUB_SHA"],
    gitRef: ["GITHUB_REF"],
    gitRepository: ["GITHUB_REPOSITORY"],
    prNumber: ["SVC_PR_NUMBER"],
  },
  "gitlab-ci": {
    gitSha: ["CI_COMMIT_SHA"],
    gitRef: ["CI_MERGE_REQUEST_REF_PATH", "CI_COMMIT_REF_NAME"],
    gitRepository: ["CI_PROJECT_PATH"],
    prNumber: ["SVC_PR_NUMBER", "CI_MERGE_REQUEST_IID"],
  },
} as const;

/** Another system may still name the pull request that a deploy is for. */
const noSources = { gitSha: [], gitRef: [], gitRepository: [], prNumber: ["SVC_PR_NUMBER"] } as const;

/** `refs/pull/12/merge` of GitHub and `refs/merge-requests/12/head` of GitLab. */
const numberedRef = /^refs\/(?:pull|merge-requests)\/(\d{1,9})\//;

function systemOf(env: Env): keyof typeof sources | null {
  if (env["GITHUB_ACTIONS"] === "true") return "github-actions";
  return env["GITLAB_CI"] ? "gitlab-ci" : null;
}

/**
 * What the pipeline says about where this deploy comes from; elsewhere only that it was the command line, and the
 * pull request when SVC_PR_NUMBER names one. A fact in a form that the API would refuse is left out: attribution never stops a deploy.
 */
export function deployFacts(env: Env): DeploymentMetadata {
  const system = systemOf(env);
  const first = (names: readonly string[]) => names.map((name) => env[name]).find((value) => value);
  const { gitSha, gitRef, gitRepository, prNumber } = system === null ? noSources : sources[system];
  const ref = first(gitRef);
  // A variable that is set without a number (an expression that came to nothing) does not hide the one of the ref.
  const number = [...prNumber.map((name) => env[name]), numberedRef.exec(ref ?? "")?.[1]].find(
    (text) => text !== undefined && /^[1-9]\d{0,9}$/.test(text),
  );
  const facts = {
    trigger: system ?? "cli",
    gitSha: first(gitSha),
    gitRef: ref,
    gitRepository: first(gitRepository),
    gitPrNumber: number === undefined ? undefined : Number(number),
  };
  const fits = Object.entries(facts).filter(
    ([name, value]) => value !== undefined && deploymentMetadata.safeParse({ [name]: value }).success,
  );
  return deploymentMetadata.parse(Object.fromEntries(fits));
}
