/** What all pages say. */
export default {
  en: {
    "page.skip": "To the content",
    "page.pages": "Pages",
    "page.dashboard": "Dashboard",
    "page.playground": "Playground",
    "page.docs": "API",
    "page.theme": "Theme: {theme}",
    "page.theme.auto": "as the system",
    "page.theme.light": "light",
    "page.theme.dark": "dark",
    "page.copy": "Copy",
    "page.copied": "Copied",
  },
  zh: {
    "page.skip": "跳到正文",
    "page.pages": "页面",
    "page.dashboard": "仪表盘",
    "page.playground": "试验场",
    "page.docs": "接口",
    "page.theme": "主题：{theme}",
    "page.theme.auto": "跟随系统",
    "page.theme.light": "浅色",
    "page.theme.dark": "深色",
    "page.copy": "复制",
    "page.copied": "已复制",
  },
};
