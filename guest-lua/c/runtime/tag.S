# The exception tag that longjmp throws.
	.globl	__c_longjmp
	.tagtype	__c_longjmp i32
__c_longjmp:
