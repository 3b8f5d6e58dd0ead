// What it is built from lies in more than one folder here.
export default { turbopack: { root: process.env.WORKSPACE } };
