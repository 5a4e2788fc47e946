/**
 * What people type who come from other platforms' command lines, and what does it here. `destroys`: they expect that
 * something ends for good. Advice never leads from such a word to a command that only changes things, nor back.
 */
export interface Habit {
  readonly words: readonly string[];
  readonly destroys?: true;
  readonly advice: string;
}

export const habits: readonly Habit[] = [
  {
    words: ["ls", "list", "apps", "app", "services", "sites"],
    advice: "`svc projects list` shows your projects, `svc status` the deployments of this one",
  },
  {
    words: ["ps", "info", "show", "inspect", "deployments", "releases", "history", "activity", "machines", "instances"],
    advice: "`svc status` shows what runs, where it is reached, and the latest deployments",
  },
  {
    words: ["tail", "output", "stdout"],
    advice: "`svc logs --runtime --follow` shows what the app prints, `svc logs` what the build printed",
  },
  {
    words: ["me", "account", "user", "profile", "auth whoami", "auth status"],
    advice: "`svc whoami` shows whose key is used",
  },
  {
    words: ["ssh", "exec", "console", "shell", "bash", "attach", "sftp", "proxy", "port-forward", "connect"],
    advice:
      "There is no way into a container: `svc logs --runtime --follow` shows what the app prints. `svc run` runs a command here, with its variables. What has to run before a deployment serves is release.command of the manifest",
  },
  {
    words: ["health", "checks", "check", "ping", "diagnose", "troubleshoot"],
    advice: "`svc verify` asks whether the site answers, `svc doctor` looks for what is wrong here",
  },
  { words: ["validate", "lint"], advice: "`svc manifest validate` checks the manifest" },
  { words: ["browse", "web", "url", "visit"], advice: "`svc open` prints the address, and opens it" },
  {
    words: ["commands", "man", "docs", "usage"],
    advice: "`svc --help` lists all commands, and `svc <command> --help` explains one",
  },
  {
    words: ["keys", "api-keys", "apikeys", "auth token", "auth tokens"],
    advice: "`svc tokens list` shows the keys of your account",
  },
  {
    words: ["fleet", "node", "nodes", "servers", "hosts"],
    advice: "Administrators see the machines with `svc admin nodes list`",
  },
  {
    words: ["upgrade", "update", "self-update"],
    advice: "Get the command line again where you got this one; `svc --version` says which this is",
  },
  {
    words: ["postgres", "pg", "mysql", "mariadb", "psql", "sql", "addons", "db create", "db new", "db add", "db up"],
    advice:
      "`svc db enable` makes a database, `svc db query` asks it, and `svc db proxy` lets a client of yours reach it",
  },
  {
    words: ["db url", "db credentials", "db env", "db console", "db shell", "db connect", "db psql", "db port-forward"],
    advice:
      "Apps get DATABASE_URL by themselves. `svc db query` runs SQL, and `svc db proxy` makes the database reachable from here",
  },
  { words: ["migrate", "migration", "migrations"], advice: "`svc db migrate` applies what is in .svc/migrations" },
  {
    words: ["db delete", "db remove", "db rm", "db drop", "db destroy", "db reset"],
    destroys: true,
    advice: "`svc db disable --channel <channel>` deletes a database with all its data",
  },
  {
    words: ["redis", "volumes", "volume", "storage"],
    advice: "There is none: give the app the address of one in a variable, with `svc env push`",
  },
  {
    words: ["cron", "crons", "schedule", "schedules", "scheduler", "tasks"],
    advice: "`svc jobs ls` shows the jobs that the manifest schedules, and `svc jobs runs` how they went",
  },
  {
    words: ["functions"],
    advice: "That is not there yet; `svc --help` lists what is",
  },
  {
    words: ["certs", "ssl", "dns", "alias"],
    advice:
      "`svc domains add <domain>` gives the project a name of your own, and `svc projects rename <slug>` another address",
  },
  {
    words: ["secrets", "secret", "variables", "variable", "vars", "var", "config", "environment", "dotenv"],
    advice:
      "`svc env pull` writes the variables into a file, and `svc env push` gives the project those of a file. They count from the next deploy on",
  },
  {
    words: ["env set", "env add", "env edit", "env import", "env list", "env ls", "env get", "env show", "env export"],
    advice: "Variables go by file: `svc env pull`, look at it or edit it, then `svc env push`",
  },
  {
    words: ["up", "push", "publish", "ship", "release", "redeploy", "build", "install"],
    advice: "`svc deploy` deploys this directory",
  },
  {
    words: ["launch", "create", "new", "setup", "projects create", "projects new", "projects add", "apps create"],
    advice: "`svc init` writes a manifest, and the first `svc deploy` makes the project",
  },
  {
    words: ["link", "use", "switch", "select"],
    advice:
      "The first `svc deploy` links a directory by itself; slug: in the manifest or --project <slug> names another project, and `svc unlink` forgets the link",
  },
  {
    words: ["restart", "reboot", "reload", "bounce", "apps restart"],
    advice: "`svc deploy` starts anew without a gap; `svc stop` and then `svc start` do with one",
  },
  {
    words: ["pause", "suspend", "halt", "shutdown", "sleep", "down", "off", "disable"],
    advice: "`svc stop` takes the site down until `svc start`",
  },
  { words: ["resume", "wake", "unpause", "on", "enable"], advice: "`svc start` puts the site up again" },
  {
    words: ["scale", "autoscale", "replicas", "resize", "vm"],
    advice: "app.replicas in the manifest says how many containers run, from the next `svc deploy` on",
  },
  { words: ["revert", "undo", "back"], advice: "`svc rollback` puts an earlier deployment back" },
  {
    words: ["abort", "kill", "interrupt"],
    advice: "`svc cancel` ends a deployment on its way, and `svc stop` takes the site down",
  },
  {
    words: ["rename", "mv", "apps rename"],
    advice: "`svc projects rename <slug>` gives the project another address",
  },
  {
    words: ["auth", "auth login", "signin", "sign-in", "signup", "register"],
    advice: "`svc login` logs in by the browser",
  },
  { words: ["auth logout", "signout", "sign-out"], advice: "`svc logout` logs out" },
  {
    words: ["invite", "team", "teams", "org", "orgs", "members"],
    advice: "Administrators let somebody in with `svc admin invites create <email>`",
  },
  {
    words: ["destroy", "delete", "remove", "rm", "del", "purge", "drop", "nuke", "teardown", "undeploy", "uninstall"],
    destroys: true,
    advice:
      "`svc projects delete <slug>` deletes a project with everything in it, `svc previews delete <pull request>` a preview",
  },
  {
    words: ["apps destroy", "apps delete", "app destroy", "app delete", "projects destroy", "projects drop"],
    destroys: true,
    advice: "`svc projects delete <slug>` deletes a project with everything in it",
  },
];

/** Flags that other command lines have, and what says the same here where the command has it. */
export const flagHabits: readonly {
  readonly flags: readonly string[];
  readonly here: string;
  readonly advice: string;
}[] = [
  {
    flags: ["--tail", "-t"],
    here: "--follow",
    advice: "`--follow` goes on as more comes, `--lines <n>` shows the last n lines",
  },
  { flags: ["--num", "--limit", "--last"], here: "--lines", advice: "`--lines <n>` shows the last n lines" },
  { flags: ["-a", "-p", "--app", "--name"], here: "--project", advice: "`--project <slug>` names the project" },
  { flags: ["--production", "-P"], here: "--prod", advice: "`--prod` deploys to production" },
  { flags: ["-d", "--detach", "--async"], here: "--no-wait", advice: "`--no-wait` returns once it is queued" },
  { flags: ["-e", "--env", "--environment"], here: "--channel", advice: "`--channel <channel>` names one" },
  { flags: ["-y", "--confirm", "--force"], here: "--yes", advice: "`--yes` goes on without a question" },
  { flags: ["-q"], here: "--quiet", advice: "`--quiet` prints nothing on success" },
  {
    flags: ["-v", "--debug"],
    here: "--verbose",
    advice: "`--verbose` says what is called; `svc --version` the version",
  },
  { flags: ["-c", "--config"], here: "--manifest", advice: "`--manifest <path>` names the manifest" },
];
