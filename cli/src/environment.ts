/** Environment variables. */
export type Env = Readonly<Record<string, string | undefined>>;

const isSet = (value: string | undefined): boolean =>
  value !== undefined && value !== "" && value !== "0" && value.toLowerCase() !== "false";

/** Whether a pipeline runs us: no questions, no spinner, no browser. */
export const isCi = (env: Env): boolean => isSet(env["CI"]) || isSet(env["GITHUB_ACTIONS"]) || isSet(env["GITLAB_CI"]);

/** Whether GitHub Actions reads what we print, and obeys some of it. */
export const isGitHubActions = (env: Env): boolean => isSet(env["GITHUB_ACTIONS"]);
