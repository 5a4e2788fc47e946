/** What comes of a template whose directory is deployed with `svc init` and `svc deploy` and nothing else. */
export type Outcome =
  | {
      type: "static" | "ssr";
      /** In the text of `/`. */
      has: string;
    }
  /** What `svc init` refuses it with: the cure is in these words. */
  | { refused: RegExp };

/** A project as an official create tool makes it. */
export interface Template {
  name: string;
  /**
   * The tool's package with its version, then its program and words; `{dir}` stands for the new directory. Most are told
   * not to install packages, which are not deployed: the build installs without a lock file then.
   */
  create: readonly string[];
  outcome: Outcome;
}

const vite = (template: string, has: string): Template => ({
  name: `vite-${template}`,
  create: ["create-vite@9.3.0", "create-vite", "{dir}", "--template", template, "--no-interactive"],
  outcome: { type: "static", has },
});

const sv = (name: string, words: readonly string[], outcome: Outcome): Template => ({
  name,
  create: ["sv@0.17.1", "sv", "create", "{dir}", "--template", "minimal", "--types", "ts", "--no-install", ...words],
  outcome,
});

/** Only tools whose templates come out of the package registry, as the tests have no other network. */
export const templates: readonly Template[] = [
  vite("react-ts", '<div id="root">'),
  vite("vue-ts", '<div id="app">'),
  vite("svelte-ts", '<div id="app">'),
  vite("preact-ts", '<div id="app">'),
  vite("solid-ts", '<div id="root">'),
  vite("lit", "<my-element>"),
  vite("vanilla", '<div id="app">'),
  {
    name: "vue-router",
    create: ["create-vue@3.24.0", "create-vue", "{dir}", "--ts", "--router", "--pinia"],
    outcome: { type: "static", has: '<div id="app">' },
  },
  {
    name: "tanstack-router",
    create: ["create-tsrouter-app@0.54.43", "create-tsrouter-app", "{dir}", "--no-git", "--no-install"],
    outcome: { type: "static", has: '<div id="app">' },
  },
  {
    name: "create-react-app",
    create: ["create-react-app@5.1.0", "create-react-app", "{dir}"],
    outcome: { type: "static", has: '<div id="root">' },
  },
  {
    name: "rsbuild",
    create: ["create-rsbuild@2.1.13", "create-rsbuild", "--dir", "{dir}", "--template", "react-ts"],
    outcome: { type: "static", has: '<div id="root">' },
  },
  {
    name: "rspack",
    create: ["create-rspack@2.2.3", "create-rspack", "--dir", "{dir}", "--template", "react-ts"],
    outcome: { type: "static", has: '<div id="root">' },
  },
  {
    name: "angular",
    create: [
      ...["@angular/cli@22.2.7", "ng", "new", "{dir}", "--defaults"],
      ...["--ssr=false", "--skip-git", "--skip-install"],
    ],
    outcome: { type: "static", has: "<app-root" },
  },
  {
    name: "docusaurus",
    create: ["create-docusaurus@3.10.2", "create-docusaurus", "{dir}", "classic", "--javascript", "--skip-install"],
    outcome: { type: "static", has: "Dinosaurs are cool" },
  },
  {
    name: "hexo",
    create: ["hexo-cli@4.3.2", "hexo", "init", "{dir}"],
    outcome: { type: "static", has: "Hello World" },
  },
  {
    // The one with styles downloads fonts while it builds.
    name: "next",
    create: [
      ...["create-next-app@16.4.3", "create-next-app", "{dir}", "--yes"],
      ...["--empty", "--js", "--skip-install", "--disable-git"],
    ],
    outcome: { type: "ssr", has: "Hello" },
  },
  sv("sveltekit-node", ["--add", "sveltekit-adapter=adapter:node"], { type: "ssr", has: "Welcome to SvelteKit" }),
  {
    name: "tanstack-start-nitro",
    create: ["@tanstack/create-start@0.59.43", "create-start", "{dir}", "--no-git", "--no-install"],
    outcome: { type: "ssr", has: "TanStack" },
  },
  {
    name: "nest",
    create: ["@nestjs/cli@12.0.8", "nest", "new", "{dir}", "--skip-git", "--skip-install", "--package-manager", "npm"],
    outcome: { type: "ssr", has: "Hello World!" },
  },
  {
    name: "express",
    create: ["express-generator@4.16.1", "express", "--no-view", "{dir}"],
    outcome: { type: "ssr", has: "Welcome to Express" },
  },
  {
    name: "fastify",
    create: ["fastify-cli@8.0.2", "fastify", "generate", "{dir}"],
    outcome: { type: "ssr", has: '{"root":true}' },
  },
  {
    name: "vite-ssr-react",
    create: ["create-vite-extra@5.0.3", "create-vite-extra", "{dir}", "--template", "ssr-react-ts"],
    outcome: { type: "ssr", has: '<div id="root">' },
  },
  sv("sveltekit", ["--no-add-ons"], { refused: /npx sv add sveltekit-adapter=adapter:node/ }),
  {
    name: "qwik",
    create: ["create-qwik@1.20.1", "create-qwik", "empty", "{dir}"],
    outcome: { refused: /npm run qwik add/ },
  },
  {
    name: "tanstack-start",
    create: ["@tanstack/cli@0.71.0", "tanstack", "create", "{dir}", "--no-install", "--no-git", "--yes"],
    outcome: { refused: /npm install nitro/ },
  },
  {
    name: "expo-blank",
    create: ["create-expo-app@5.0.0", "create-expo-app", "{dir}", "--no-install", "--template", "blank"],
    outcome: { refused: /expo install/ },
  },
];
