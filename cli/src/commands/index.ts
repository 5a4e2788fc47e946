import type { Command } from "../command.ts";

/** A command as the program knows it before loading it. */
export type CommandEntry = {
  /** The words that are typed. */
  readonly name: string;
  load(): Promise<Command>;
};

/** Every command, in the order in which help lists them. Each is loaded only when it is used. */
export const commandIndex: readonly CommandEntry[] = [
  { name: "login", load: async () => (await import("./login.ts")).login },
  { name: "logout", load: async () => (await import("./logout.ts")).logout },
  { name: "whoami", load: async () => (await import("./whoami.ts")).whoami },
  { name: "init", load: async () => (await import("./init.ts")).init },
  { name: "manifest validate", load: async () => (await import("./manifest/validate.ts")).manifestValidate },
  { name: "deploy", load: async () => (await import("./deploy.ts")).deploy },
  { name: "status", load: async () => (await import("./status.ts")).status },
  { name: "logs", load: async () => (await import("./logs.ts")).logs },
  { name: "open", load: async () => (await import("./open.ts")).open },
  { name: "verify", load: async () => (await import("./verify.ts")).verify },
  { name: "stop", load: async () => (await import("./stop.ts")).stop },
  { name: "start", load: async () => (await import("./start.ts")).start },
  { name: "projects list", load: async () => (await import("./projects/list.ts")).projectsList },
  { name: "projects delete", load: async () => (await import("./projects/delete.ts")).projectsDelete },
  { name: "env pull", load: async () => (await import("./env/pull.ts")).envPull },
  { name: "env push", load: async () => (await import("./env/push.ts")).envPush },
  { name: "admin nodes list", load: async () => (await import("./admin/nodes/list.ts")).adminNodesList },
  { name: "admin nodes show", load: async () => (await import("./admin/nodes/show.ts")).adminNodesShow },
  {
    name: "admin nodes bootstrap-token create",
    load: async () => (await import("./admin/nodes/bootstrap-token/create.ts")).adminNodesBootstrapTokenCreate,
  },
];

/** What the groups of commands are about. */
export const groupSummaries: Readonly<Record<string, string>> = {
  manifest: "Work with the manifest of this directory",
  projects: "List and delete projects",
  env: "Copy environment variables between a project and a dotenv file",
  admin: "Administer the installation",
  "admin nodes": "Machines of the fleet",
  "admin nodes bootstrap-token": "One-time tokens with which machines join",
};

/** Other words for a word of a command, as people guess them. */
export const aliases: Readonly<Record<string, readonly string[]>> = {
  list: ["ls"],
  delete: ["rm", "remove"],
  create: ["add", "new"],
  projects: ["project"],
  nodes: ["node"],
};

/** The word that `word` stands for. */
export const canonicalWord = (word: string): string =>
  Object.keys(aliases).find((name) => aliases[name]?.includes(word)) ?? word;
