import { z } from "zod";
import { replyObject, success, timestamp } from "./envelope.ts";

/** A repository of the linked Git host account. `url` is its page, not what git clones. */
export const githostRepo = replyObject({
  id: z.string(),
  name: z.string(),
  /** With its owner: `ada/shop`. */
  fullName: z.string(),
  url: z.string(),
  /** Null for an empty repository. */
  defaultBranch: z.string().nullable(),
  private: z.boolean(),
  updatedAt: timestamp,
});
export type GithostRepo = z.output<typeof githostRepo>;

/** The latest change first. `truncated`: there are more than are listed. */
export const githostReposReply = success({ repos: z.array(githostRepo), truncated: z.boolean() });
