import type { Command } from "../command.ts";

/** A command as the program knows it before loading it. */
export interface CommandEntry {
  /** The words that are typed. */
  readonly name: string;
  load(): Promise<Command>;
}

/** Every command, in the order in which help lists them. Each is loaded only when it is used. */
export const commandIndex: readonly CommandEntry[] = [
  { name: "login", load: async () => (await import("./login.ts")).login },
  { name: "logout", load: async () => (await import("./logout.ts")).logout },
  { name: "whoami", load: async () => (await import("./whoami.ts")).whoami },
  { name: "tokens list", load: async () => (await import("./tokens/list.ts")).tokensList },
  { name: "tokens revoke", load: async () => (await import("./tokens/revoke.ts")).tokensRevoke },
  { name: "doctor", load: async () => (await import("./doctor.ts")).doctor },
  { name: "init", load: async () => (await import("./init.ts")).init },
  { name: "manifest validate", load: async () => (await import("./manifest/validate.ts")).manifestValidate },
  { name: "deploy", load: async () => (await import("./deploy.ts")).deploy },
  { name: "cancel", load: async () => (await import("./cancel.ts")).cancel },
  { name: "rollback", load: async () => (await import("./rollback.ts")).rollback },
  { name: "promote", load: async () => (await import("./promote.ts")).promote },
  { name: "status", load: async () => (await import("./status.ts")).status },
  { name: "logs", load: async () => (await import("./logs.ts")).logs },
  { name: "metrics", load: async () => (await import("./metrics.ts")).metrics },
  { name: "analytics", load: async () => (await import("./analytics.ts")).analytics },
  { name: "open", load: async () => (await import("./open.ts")).open },
  { name: "verify", load: async () => (await import("./verify.ts")).verify },
  { name: "stop", load: async () => (await import("./stop.ts")).stop },
  { name: "start", load: async () => (await import("./start.ts")).start },
  { name: "unlink", load: async () => (await import("./unlink.ts")).unlink },
  { name: "projects list", load: async () => (await import("./projects/list.ts")).projectsList },
  { name: "projects rename", load: async () => (await import("./projects/rename.ts")).projectsRename },
  { name: "projects delete", load: async () => (await import("./projects/delete.ts")).projectsDelete },
  { name: "previews delete", load: async () => (await import("./previews/delete.ts")).previewsDelete },
  { name: "registry login", load: async () => (await import("./registry/login.ts")).registryLogin },
  { name: "registry list", load: async () => (await import("./registry/list.ts")).registryList },
  { name: "registry set", load: async () => (await import("./registry/set.ts")).registrySet },
  { name: "registry remove", load: async () => (await import("./registry/remove.ts")).registryRemove },
  { name: "domains ls", load: async () => (await import("./domains/ls.ts")).domainsLs },
  { name: "domains add", load: async () => (await import("./domains/add.ts")).domainsAdd },
  { name: "domains route", load: async () => (await import("./domains/route.ts")).domainsRoute },
  { name: "domains redirect", load: async () => (await import("./domains/redirect.ts")).domainsRedirect },
  { name: "domains hsts", load: async () => (await import("./domains/hsts.ts")).domainsHsts },
  { name: "domains verify", load: async () => (await import("./domains/verify.ts")).domainsVerify },
  { name: "domains rm", load: async () => (await import("./domains/rm.ts")).domainsRm },
  { name: "db enable", load: async () => (await import("./db/enable.ts")).dbEnable },
  { name: "db branch", load: async () => (await import("./db/branch.ts")).dbBranch },
  { name: "db status", load: async () => (await import("./db/status.ts")).dbStatus },
  { name: "db disable", load: async () => (await import("./db/disable.ts")).dbDisable },
  { name: "db migrate", load: async () => (await import("./db/migrate.ts")).dbMigrate },
  { name: "db query", load: async () => (await import("./db/query.ts")).dbQuery },
  { name: "db schema", load: async () => (await import("./db/schema.ts")).dbSchema },
  { name: "db tables", load: async () => (await import("./db/tables.ts")).dbTables },
  { name: "db usage", load: async () => (await import("./db/usage.ts")).dbUsage },
  { name: "db migrations", load: async () => (await import("./db/migrations.ts")).dbMigrations },
  { name: "db backup list", load: async () => (await import("./db/backup/list.ts")).dbBackupList },
  { name: "db backup create", load: async () => (await import("./db/backup/create.ts")).dbBackupCreate },
  { name: "db backup delete", load: async () => (await import("./db/backup/delete.ts")).dbBackupDelete },
  { name: "db backup download", load: async () => (await import("./db/backup/download.ts")).dbBackupDownload },
  { name: "db backup schedule", load: async () => (await import("./db/backup/schedule.ts")).dbBackupSchedule },
  { name: "db export", load: async () => (await import("./db/export.ts")).dbExport },
  { name: "db import", load: async () => (await import("./db/import.ts")).dbImport },
  {
    name: "db rotate-credentials",
    load: async () => (await import("./db/rotate-credentials.ts")).dbRotateCredentials,
  },
  { name: "db restore", load: async () => (await import("./db/restore.ts")).dbRestore },
  { name: "db proxy", load: async () => (await import("./db/proxy.ts")).dbProxy },
  { name: "env pull", load: async () => (await import("./env/pull.ts")).envPull },
  { name: "env push", load: async () => (await import("./env/push.ts")).envPush },
  { name: "admin nodes list", load: async () => (await import("./admin/nodes/list.ts")).adminNodesList },
  { name: "admin nodes show", load: async () => (await import("./admin/nodes/show.ts")).adminNodesShow },
  { name: "admin nodes explain", load: async () => (await import("./admin/nodes/explain.ts")).adminNodesExplain },
  {
    name: "admin nodes readdress",
    load: async () => (await import("./admin/nodes/readdress.ts")).adminNodesReaddress,
  },
  { name: "admin nodes label", load: async () => (await import("./admin/nodes/label.ts")).adminNodesLabel },
  { name: "admin nodes cordon", load: async () => (await import("./admin/nodes/cordon.ts")).adminNodesCordon },
  { name: "admin nodes uncordon", load: async () => (await import("./admin/nodes/uncordon.ts")).adminNodesUncordon },
  { name: "admin nodes drain", load: async () => (await import("./admin/nodes/drain.ts")).adminNodesDrain },
  {
    name: "admin nodes cancel-drain",
    load: async () => (await import("./admin/nodes/cancel-drain.ts")).adminNodesCancelDrain,
  },
  {
    name: "admin nodes force-fence",
    load: async () => (await import("./admin/nodes/force-fence.ts")).adminNodesForceFence,
  },
  { name: "admin nodes remove", load: async () => (await import("./admin/nodes/remove.ts")).adminNodesRemove },
  {
    name: "admin nodes bootstrap-token list",
    load: async () => (await import("./admin/nodes/bootstrap-token/list.ts")).adminNodesBootstrapTokenList,
  },
  {
    name: "admin nodes bootstrap-token revoke",
    load: async () => (await import("./admin/nodes/bootstrap-token/revoke.ts")).adminNodesBootstrapTokenRevoke,
  },
  {
    name: "admin nodes bootstrap-token create",
    load: async () => (await import("./admin/nodes/bootstrap-token/create.ts")).adminNodesBootstrapTokenCreate,
  },
  { name: "admin ca show", load: async () => (await import("./admin/ca/show.ts")).adminCaShow },
  { name: "admin ca rotate", load: async () => (await import("./admin/ca/rotate.ts")).adminCaRotate },
  { name: "admin users list", load: async () => (await import("./admin/users/list.ts")).adminUsersList },
  { name: "admin users ban", load: async () => (await import("./admin/users/ban.ts")).adminUsersBan },
  { name: "admin users unban", load: async () => (await import("./admin/users/unban.ts")).adminUsersUnban },
  { name: "admin users role", load: async () => (await import("./admin/users/role.ts")).adminUsersRole },
  { name: "admin users plan", load: async () => (await import("./admin/users/plan.ts")).adminUsersPlan },
  { name: "admin users delete", load: async () => (await import("./admin/users/delete.ts")).adminUsersDelete },
  { name: "admin projects list", load: async () => (await import("./admin/projects/list.ts")).adminProjectsList },
  {
    name: "admin projects suspend",
    load: async () => (await import("./admin/projects/suspend.ts")).adminProjectsSuspend,
  },
  { name: "admin projects resume", load: async () => (await import("./admin/projects/resume.ts")).adminProjectsResume },
  { name: "admin db list", load: async () => (await import("./admin/db/list.ts")).adminDbList },
  { name: "admin db show", load: async () => (await import("./admin/db/show.ts")).adminDbShow },
  { name: "admin db restore", load: async () => (await import("./admin/db/restore.ts")).adminDbRestore },
  { name: "admin db move", load: async () => (await import("./admin/db/move.ts")).adminDbMove },
  { name: "admin db fetch", load: async () => (await import("./admin/db/fetch.ts")).adminDbFetch },
  { name: "admin db cancel", load: async () => (await import("./admin/db/cancel.ts")).adminDbCancel },
  { name: "admin db volumes", load: async () => (await import("./admin/db/volumes.ts")).adminDbVolumes },
  { name: "admin db keep", load: async () => (await import("./admin/db/keep.ts")).adminDbKeep },
  { name: "admin db delete", load: async () => (await import("./admin/db/delete.ts")).adminDbDelete },
  { name: "admin db undrop", load: async () => (await import("./admin/db/undrop.ts")).adminDbUndrop },
  { name: "admin plans list", load: async () => (await import("./admin/plans/list.ts")).adminPlansList },
  { name: "admin invites create", load: async () => (await import("./admin/invites/create.ts")).adminInvitesCreate },
  { name: "admin invites list", load: async () => (await import("./admin/invites/list.ts")).adminInvitesList },
  { name: "admin invites delete", load: async () => (await import("./admin/invites/delete.ts")).adminInvitesDelete },
  { name: "admin doctor", load: async () => (await import("./admin/doctor.ts")).adminDoctor },
  { name: "admin audit", load: async () => (await import("./admin/audit.ts")).adminAudit },
  { name: "completions", load: async () => (await import("./completions.ts")).completions },
];

/** Commands that end something for good. No other word for something else may lead to them. */
export const destroying: readonly string[] = [
  "tokens revoke",
  "projects delete",
  "previews delete",
  "registry remove",
  "domains rm",
  "db disable",
  "db backup delete",
  "db rotate-credentials",
  "db restore",
  "admin db restore",
  "admin db delete",
  "admin nodes force-fence",
  "admin nodes remove",
  "admin nodes bootstrap-token revoke",
  "admin users delete",
  "admin invites delete",
];

/** What the groups of commands are about. */
export const groupSummaries: Readonly<Record<string, string>> = {
  tokens: "Keys of your account",
  manifest: "Work with the manifest of this directory",
  projects: "List, rename and delete projects",
  previews: "Remove previews",
  registry: "Push images of your own, and credentials with which the platform pulls private ones",
  domains: "Names of your own at which the project answers",
  db: "Managed databases, one for each channel",
  "db backup": "Backups of databases, which the platform keeps",
  env: "Copy environment variables between a project and a dotenv file",
  admin: "Administer the installation",
  "admin nodes": "Machines of the fleet",
  "admin ca": "The certificate authority of the fleet",
  "admin users": "Accounts",
  "admin projects": "Everybody's projects",
  "admin db": "Everybody's databases: where they are, and what copies of them can do",
  "admin plans": "What accounts may use",
  "admin invites": "Invitations to sign up",
  "admin nodes bootstrap-token": "One-time tokens with which machines join",
};

/** Words that people guess for one another. Which of them a command is called is in the index. */
const synonyms: readonly (readonly string[])[] = [
  ["list", "ls"],
  ["delete", "remove", "rm"],
  // Of a word that is in two lists the first one counts: nobody who types revoke means delete.
  ["revoke", "delete", "remove", "rm"],
  ["create", "add", "new"],
  ["tokens", "token"],
  ["projects", "project"],
  ["previews", "preview"],
  ["domains", "domain"],
  ["nodes", "node"],
  ["users", "user"],
  ["plans", "plan"],
  ["invites", "invite"],
  ["db", "database", "databases"],
  ["backup", "backups"],
];

/** The other words that stand for `word`. */
export const aliasesOf = (word: string): string[] =>
  (synonyms.find((words) => words.includes(word)) ?? []).filter((each) => each !== word);

/** Whether somebody who typed `typed` means `word`. */
export const means = (typed: string, word: string): boolean => typed === word || aliasesOf(word).includes(typed);
