// report_chart.js
