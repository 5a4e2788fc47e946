import { deploymentMetadata } from "@svc/proto";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { deployFacts } from "./ci.ts";

const sha = "0123456789abcdef0123456789abcdef01234567";
const github = {
  GITHUB_ACTIONS: "true",
  GITHUB_SHA: sha,
  GITHUB_REF: "refs/heads/main",
  GITHUB_REPOSITORY: "ada/shop",
};
const gitlab = { GITLAB_CI: "true", CI_COMMIT_SHA: sha, CI_COMMIT_REF_NAME: "main", CI_PROJECT_PATH: "ada/shop" };

describe("where a deploy comes from", () => {
  test.each([
    { when: "a person runs it", env: { GITHUB_SHA: sha, CI_COMMIT_SHA: sha }, facts: { trigger: "cli" } },
    {
      when: "another system names the pull request",
      env: { CI: "true", SVC_PR_NUMBER: "12" },
      facts: { trigger: "cli", gitPrNumber: 12 },
    },
    {
      when: "GitHub pushes a branch",
      env: github,
      facts: { trigger: "github-actions", gitSha: sha, gitRef: "refs/heads/main", gitRepository: "ada/shop" },
    },
    {
      when: "GitHub runs a pull request",
      env: { ...github, GITHUB_REF: "refs/pull/17/merge" },
      facts: { gitRef: "refs/pull/17/merge", gitPrNumber: 17 },
    },
    {
      when: "the pipeline names the pull request",
      env: { ...github, SVC_PR_NUMBER: "9", GITHUB_REF: "refs/pull/17/merge" },
      facts: { gitPrNumber: 9 },
    },
    {
      when: "the pipeline names no number, and the ref does",
      env: { ...github, SVC_PR_NUMBER: "null", GITHUB_REF: "refs/pull/17/merge" },
      facts: { gitPrNumber: 17 },
    },
    {
      when: "GitLab runs a branch",
      env: gitlab,
      facts: { trigger: "gitlab-ci", gitSha: sha, gitRef: "main", gitRepository: "ada/shop" },
    },
    {
      when: "GitLab runs a merge request",
      env: { ...gitlab, CI_MERGE_REQUEST_IID: "4", CI_MERGE_REQUEST_REF_PATH: "refs/merge-requests/4/head" },
      facts: { gitRef: "refs/merge-requests/4/head", gitPrNumber: 4 },
    },
  ])("when $when", ({ env, facts }) => {
    expect(deployFacts(env)).toMatchObject(facts);
  });

  test("a fact that the API would refuse is left out, the others stay", () => {
    const facts = deployFacts({ ...github, GITHUB_SHA: "not a hash", SVC_PR_NUMBER: "many", GITHUB_REF: "a\u001bb" });
    expect(facts).toEqual({ trigger: "github-actions", gitRepository: "ada/shop" });
  });

  test("whatever the environment holds, the API takes it", () => {
    const names = [...Object.keys(github), ...Object.keys(gitlab), "SVC_PR_NUMBER", "CI_MERGE_REQUEST_IID"];
    const env = fc.record(Object.fromEntries(names.map((name) => [name, fc.string()])), { requiredKeys: [] });
    fc.assert(
      fc.property(env, (some) => {
        const facts = deployFacts({ ...some, GITHUB_ACTIONS: "true" });
        expect(deploymentMetadata.safeParse(facts).success).toBe(true);
      }),
    );
  });
});
